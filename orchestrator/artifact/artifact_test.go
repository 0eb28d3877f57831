package artifact

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		number  int64
		problem string
	}{
		"":                                          {0, ""},
		"https://github.com/a/b/pull/123":           {123, ""},
		"https://github.com/a/b/pull/123?x":         {123, ""},
		"https://github.com/a/b/pull/1/":            {1, ""},
		"https://github.com/a/b":                    {0, ""},
		"http://localhost:3000/a/b/issues/9":        {9, ""},
		"javascript:alert(1)":                       {0, "the URL is not one of http or https"},
		"//github.com/a/b/pull/1":                   {0, "the URL is not one of http or https"},
		"https://u:p@github.com/a/b/pull/1":         {0, "the URL has a user"},
		"https://github.com/\x1b[2J/pull/1":         {0, "the URL cannot be read"},
		"https://github.com/\u202e/pull/1":          {0, "the URL cannot be read"},
		"https://github.com/a b/pull/1":             {0, "the URL cannot be read"},
		"https://g.co/" + strings.Repeat("x", 2048): {0, "the URL is longer than 2048 bytes"},
		"/srv/x\x1b[2J":                             {0, "the URL cannot be read"},
		"file://host/x":                             {0, "the URL is not one of http or https"},
		"file:////evil/x":                           {0, "the URL is not one of http or https"},
	} {
		p := New(protocol.Artifact{Kind: "pr_url", URL: url})
		if p.Kind != "pull_request" || p.Number != want.number || p.Problem != want.problem || (p.URL == "") != (url == "" || want.problem != "") {
			t.Errorf("%q: %+v, want %+v", url, p, want)
		}
	}
}

// People see the path of a local repository, which is no link.
func TestProductOfLocalRepository(t *testing.T) {
	t.Parallel()
	for _, declared := range []string{"/srv/git/a b.git", "file:///srv/git/a b.git"} {
		p := New(protocol.Artifact{Kind: "branch", Ref: "lattice/run_1", URL: declared})
		if p.Path != "/srv/git/a b.git" || p.URL != "" || p.Problem != "" {
			t.Errorf("%q: %+v", declared, p)
		}
	}
}
