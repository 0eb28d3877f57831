package worktree

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

func TestSanitize(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"plain":            {"fatal: no\n", "fatal: no"},
		"colours":          {"\x1b[1;31mred\x1b[0m", "red"},
		"title":            {"\x1b]0;pwned\x07text", "]0;pwnedtext"},
		"progress":         {"50%\r100%\n", "50%\n100%"},
		"bad utf-8":        {"a\xffb", "a\uFFFDb"},
		"bidi":             {"a\u202eb", "a<U+202E>b"},
		"split by nothing": {"token ghp_s3c\u200d\u200bret000", "token ***"},
		"password":         {"fatal: https://ada:s3cret@host/r", "fatal: https://***@host/r"},
		"token as user":    {"https://s3cret@host/r", "https://***@host/r"},
		"hidden by escape": {"https://ada:s3\x1b[0mcret@host/r", "https://***@host/r"},
		"header":           {"> Authorization: Basic czNjcmV0", "> Authorization: Basic ***"},
		"query":            {"https://host/r?access_token=s3cret&x=1", "https://host/r?access_token=***&x=1"},
		"github":           {"token ghp_s3cret000", "token ***"},
		"address stays":    {"git@github.com:a/b.git", "git@github.com:a/b.git"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := gitexec.Sanitize(tt.in); got != tt.want {
				t.Errorf("Sanitize(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	if got := gitexec.Sanitize(strings.Repeat("é", 4000)); len(got) > gitexec.MaxText+3 {
		t.Errorf("Sanitize keeps %d bytes", len(got))
	}
}
