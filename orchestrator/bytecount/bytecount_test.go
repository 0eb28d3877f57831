package bytecount

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file tells where its reader is, also when that reads it again from its beginning, as after a broken connection.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var at int64
	whole := File(f, 10, func(n int64) { at = n })
	for _, n := range []int64{10, 4} {
		text, err := io.ReadAll(io.NewSectionReader(whole, 0, n))
		if err != nil || string(text) != "0123456789"[:n] || at != n {
			t.Errorf("read %q at %d, %v, want %d bytes", text, at, err, n)
		}
	}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	var told []int64
	c := Counter{Tell: func(n int64) { told = append(told, n) }}
	if _, err := io.Copy(io.Discard, io.TeeReader(io.MultiReader(strings.NewReader("ab"), strings.NewReader("cde")), &c)); err != nil || c.N != 5 || len(told) != 2 || told[0] != 2 {
		t.Errorf("counted %d, told %v, %v", c.N, told, err)
	}
	if n, err := new(Counter).Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("a counter without a listener: %d, %v", n, err)
	}
}
