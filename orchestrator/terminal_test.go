package main

import (
	"io"
	"strings"
	"testing"
)

func TestEscapes(t *testing.T) {
	for _, c := range []struct {
		name, typed, read string
		detached          bool
	}{
		{"nothing special", "ls\r", "ls\r", false},
		{"detach at once", "~.more", "", true},
		{"detach after a line", "ls\r~.more", "ls\r", true},
		{"not inside a line", "a~.\r", "a~.\r", false},
		{"the character itself", "~~.\r", "~.\r", false},
		{"another follower", "~x", "~x", false},
		{"help says nothing to the command", "~?ls", "ls", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 100} {
				detached := false
				e := &escapes{in: io.LimitReader(strings.NewReader(c.typed), 1000), char: '~', help: io.Discard, detach: func() { detached = true }}
				got, err := io.ReadAll(readerOf{e, size})
				if err != nil || string(got) != c.read || detached != c.detached {
					t.Errorf("read %q, %v, detached %t; want %q, %t", got, err, detached, c.read, c.detached)
				}
			}
		})
	}
}

// readerOf reads at most n bytes at a time.
type readerOf struct {
	r io.Reader
	n int
}

func (r readerOf) Read(p []byte) (int, error) { return r.r.Read(p[:min(r.n, len(p))]) }
