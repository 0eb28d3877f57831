package provider

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/spritekit/lattice/orchestrator/secret"
)

const value = "npm_0123456789abcdefghij"

// write makes a file and returns its path.
func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// expect resolves s and compares: want is the value, or with "error: " a part of the error.
func expect(t *testing.T, s secret.Source, want string) {
	t.Helper()
	got, err := s.Resolve(t.Context(), secret.Request{Name: "npm", Scope: "pkg"})
	part, fails := strings.CutPrefix(want, "error: ")
	switch {
	case fails && (err == nil || !strings.Contains(err.Error(), part)):
		t.Errorf("Resolve = %q, %v, want the error %q", got, err, part)
	case !fails && (err != nil || got != want):
		t.Errorf("Resolve = %q, %v, want %q", got, err, want)
	case err != nil && strings.Contains(err.Error(), value):
		t.Errorf("the error holds the secret: %v", err)
	}
}

func TestEnv(t *testing.T) {
	for content, want := range map[string]string{value: value, "": "error: not set", "short": "error: fewer than 8 bytes", value + "\x00": "error: NUL"} {
		var s secret.Source
		Env(&s, "V", func(string) string { return content })
		expect(t, s, want)
	}
}

func TestFile(t *testing.T) {
	var s secret.Source
	File(&s, write(t, "token", value+"\n", 0o600))
	expect(t, s, value)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644} {
		File(&s, write(t, "token", value, mode))
		expect(t, s, "error: open to others")
		if s.Check() == nil {
			t.Errorf("Check accepts mode %o", mode)
		}
	}
	File(&s, t.TempDir())
	expect(t, s, "error: not a regular file")
	File(&s, "/nonexistent/token")
	expect(t, s, "error: no such file")
	File(&s, write(t, "token", "\n", 0o600))
	expect(t, s, "error: empty")
	File(&s, write(t, "token", strings.Repeat("x", 70<<10), 0o600))
	expect(t, s, "error: more than")
}

func TestAge(t *testing.T) {
	right, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	encrypt := func(armored bool, text string) string {
		var out bytes.Buffer
		var to io.Writer = &out
		var a io.WriteCloser
		if armored {
			a = armor.NewWriter(&out)
			to = a
		}
		w, err := age.Encrypt(to, right.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if a != nil {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	id := write(t, "id", "# mine\n"+right.String()+"\n", 0o600)
	for _, armored := range []bool{false, true} {
		text := encrypt(armored, value+"\n")
		for content, want := range map[string]string{text: value, text[:len(text)/2]: "error: decrypt", value: "error: decrypt"} {
			var s secret.Source
			Age(&s, write(t, "secret.age", content, 0o644), id)
			expect(t, s, want)
		}
		var s secret.Source
		file := write(t, "secret.age", text, 0o644)
		Age(&s, file, write(t, "id", wrong.String(), 0o600))
		expect(t, s, "error: no identity in")
		Age(&s, file, write(t, "id", right.String(), 0o644))
		expect(t, s, "error: open to others")
		Age(&s, file, write(t, "id", value, 0o600))
		expect(t, s, "error: holds no identities")
	}
	most := strings.Repeat("x", secret.MaxSize)
	for text, want := range map[string]string{most + "\r\n": most, most + "x": "error: more than", most + "\r\nmore": "error: more than", most + "\n\nmore": "error: more than"} {
		var s secret.Source
		Age(&s, write(t, "secret.age", encrypt(false, text), 0o644), id)
		expect(t, s, want)
	}
}

func TestHelper(t *testing.T) {
	helper := func(script string) secret.Source {
		var s secret.Source
		Helper(&s, []string{write(t, "helper", "#!/bin/sh\n"+script+"\n", 0o700), "arg"}, []string{"PATH=" + os.Getenv("PATH")})
		return s
	}
	for script, want := range map[string]string{
		"echo " + value: value,
		`read request; case "$request" in *'"name":"npm","scope":"pkg"'*) echo ` + value + `;; esac`: value,
		"echo " + value + "; exit 3":             "error: ended with exit status 3",
		"echo " + value + " >&2; kill -9 $$":     "error: signal: killed",
		"":                                       "error: is empty",
		"echo a":                                 "error: fewer than",
		"printf 'line of text\\nand another\\n'": "error: not one line",
		"printf '" + value + "\\001'":            "error: not one line",
		"head -c 100000 /dev/zero | tr '\\0' 'x'": "error: more than",
	} {
		t.Run(script, func(t *testing.T) { expect(t, helper(script), want) })
	}
	var s secret.Source
	Helper(&s, []string{"/nonexistent/helper"}, nil)
	expect(t, s, "error: no such file")
	if s.Check() == nil {
		t.Error("Check accepts a helper that does not exist")
	}
}

// A helper that hangs is ended, with its children, which hold its stdout open.
func TestHelperHangs(t *testing.T) {
	defer func(before time.Duration) { helperTimeout = before }(helperTimeout)
	helperTimeout = 200 * time.Millisecond
	var s secret.Source
	Helper(&s, []string{write(t, "helper", "#!/bin/sh\necho "+value+"; sleep 1000 & wait\n", 0o700)}, []string{"PATH=" + os.Getenv("PATH")})
	expect(t, s, "error: did not end within 200ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Resolve(ctx, secret.Request{}); err == nil {
		t.Error("Resolve without an error after its context has ended")
	}
}
