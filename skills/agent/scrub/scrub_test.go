package scrub

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// escape returns a text with each character as a \u escape of JSON.
func escape(text string) (escaped []byte) {
	for _, c := range text {
		escaped = fmt.Appendf(escaped, `\u%04x`, c)
	}
	return escaped
}

// TestFolder has keys at the places where a reader by pieces could miss them, and in the forms in which programs keep them.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const key = "sk-canary-0123456789"
	s := redact.New(key)
	home := filepath.Join(dir, "home", "deep")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	filler := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	files := map[string][]byte{
		"log.jsonl": []byte(`{"env":"KEY=` + key + `"}` + "\n"),
		"twice":     []byte(key + key),
		"seam":      append(append(filler(piece-5), key...), filler(100)...),
		"end":       append(filler(2*piece), key...),
		"encoded":   []byte(base64.StdEncoding.EncodeToString([]byte("Bearer " + key + " and more"))),
		"escaped":   append(append(filler(piece-10), escape(key)...), filler(100)...),
		"plain":     []byte("nothing of the kind"),
		"empty":     nil,
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(home, name), data, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Folder(root, "home", s); err != nil {
		t.Fatal(err)
	}
	for name, before := range files {
		after, err := os.ReadFile(filepath.Join(home, name))
		if err != nil || len(after) != len(before) {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(after), err, len(before))
		}
		if !bytes.Equal(s.Bytes(after), after) {
			t.Errorf("%s still holds the key", name)
		}
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != key {
		t.Errorf("a link was followed: %s, %v", got, err)
	}
}

// TestFolderEnds checks that a file without end does not keep the search from ending in time.
func TestFolderEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const key = "sk-canary-0123456789"
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Skipf("there are no sparse files: %v", err)
	}
	if err := scrubTree(root, ".", redact.New(key), time.Now().Add(100*time.Millisecond)); !errors.Is(err, errTimeout) {
		t.Errorf("scrubTree = %v, want %v", err, errTimeout)
	}
	f, err := os.Open(huge)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, len(key))
	if _, err := io.ReadFull(f, head); err != nil || string(head) == key {
		t.Errorf("the file begins with %q, %v", head, err)
	}
}
