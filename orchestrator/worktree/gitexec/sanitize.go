package gitexec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// secretPatterns are forms in which credentials turn up in git's output; the first and last groups are kept.
var secretPatterns = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/'"]+(@)`),
		regexp.MustCompile(`(?i)((?:proxy-)?authorization:\s*(?:\S+\s+)?)\S+()`),
		regexp.MustCompile(`(?i)([?&](?:access_token|private_token|token|password)=)[^\s&'"]+()`),
		regexp.MustCompile(`()\b(?:gh[pousr]_|github_pat_|glpat-|x-access-token:)[A-Za-z0-9_%.-]+()`),
	}
})

// MaxText bounds, in bytes, one piece of foreign text that is shown to people.
const MaxText = 4 << 10

// Sanitize makes foreign text fit to be shown: escape sequences and control characters go (newline and tab stay, a
// carriage return becomes a newline), invisible characters are written as <U+202E>, bad UTF-8 becomes U+FFFD, credentials
// become "***", and at most 4 KiB remain.
func Sanitize(s string) string {
	s = strings.ReplaceAll(dropEscapes(strings.ToValidUTF8(s, "\uFFFD")), "\r", "\n")
	shown, bare := text.Visible(s), text.Bare(s)
	// In the text without invisible characters, so that none of them can split a credential and hide it.
	if masked := maskCredentials(bare); masked != bare {
		shown = masked
	}
	return strings.TrimSpace(text.Head(shown, MaxText))
}

func maskCredentials(s string) string {
	for _, p := range secretPatterns() {
		s = p.ReplaceAllString(s, "${1}***${2}")
	}
	return s
}

// CleanLine is like Sanitize but joins all lines into one.
func CleanLine(s string) string { return strings.Join(strings.Fields(Sanitize(s)), " ") }

// dropEscapes removes ANSI control sequences whole; dropping only ESC would leave "[31m" behind.
func dropEscapes(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != 0x1b {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '[' {
			for i += 2; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
			}
		}
	}
	return b.String()
}

// Refuse returns a final error with a code for machines, a message for people and a hint.
func Refuse(code, hint, format string, args ...any) *lattice.Refusal {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

// IsRefusal reports whether err is final.
func IsRefusal(err error) bool {
	var r *lattice.Refusal
	return errors.As(err, &r)
}
