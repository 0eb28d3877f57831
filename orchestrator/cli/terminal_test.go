package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestEscapes(t *testing.T) {
	t.Parallel()
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
				e := &EscapeReader{In: io.LimitReader(strings.NewReader(c.typed), 1000), Char: '~', Help: io.Discard, Detach: func() { detached = true }}
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

// What a sprite says is only text, whatever it is made of and however it is cut.
func TestSanitizer(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext":                      "plain\n\ttext",
		"\x1b]0;title\x07x\r":                "]0;titlex",
		"\u009b2J\u0085x":                    "2Jx",
		"\x9b2J":                             "2J",
		"\xc2":                               "\xc2",
		"a\u202eb\u2066c":                    "abc",
		"é日本\U0001f600":                      "é日本\U0001f600",
		"\xff\xfe":                           "\xff\xfe",
		"\x1b[31mred\x1b[0m\x00\x7f\x08\x0e": "[31mred[0m",
	} {
		var out strings.Builder
		n, err := Sanitize(&out).Write([]byte(in))
		if got := out.String(); got != want || n != len(in) || err != nil {
			t.Errorf("%q becomes %q, %d, %v; want %q", in, got, n, err, want)
		}
		for cut := range in { // in two pieces no more comes through
			out.Reset()
			fmt.Fprint(Sanitize(&out), in[:cut])
			fmt.Fprint(Sanitize(&out), in[cut:])
			if strings.ContainsAny(out.String(), "\x1b\x07\u009b\u0085") {
				t.Errorf("%q, cut at %d, becomes %q", in, cut, out.String())
			}
		}
	}
}
