package memo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A result is computed once for the same parts, in the same order and between the same bounds; a failure is not kept.
func TestDo(t *testing.T) {
	var m Memo[string]
	computed := 0
	do := func(fail error, parts ...string) string {
		var input [][]byte
		for _, p := range parts {
			input = append(input, []byte(p))
		}
		v, err := m.Do(func() (string, error) { computed++; return fmt.Sprint(parts), fail }, input...)
		if !errors.Is(err, fail) {
			t.Errorf("Do(%q) = %v", parts, err)
		}
		return v
	}
	large := strings.Repeat("x", limit+1)
	for _, c := range []struct {
		parts []string
		fail  error
		times int // computed in two calls
	}{
		{[]string{"ab", "c"}, nil, 1}, {[]string{"a", "bc"}, nil, 1}, {[]string{"abc"}, nil, 1}, {[]string{"bc", "a"}, nil, 1},
		{[]string{"bad"}, errors.New("bad"), 2}, {[]string{large}, nil, 2},
	} {
		before := computed
		for range 2 {
			if v := do(c.fail, c.parts...); v != fmt.Sprint(c.parts) {
				t.Errorf("Do(%.20q) = %.20q", c.parts, v)
			}
		}
		if computed-before != c.times {
			t.Errorf("Do(%.20q) computed %d times in two calls, want %d", c.parts, computed-before, c.times)
		}
	}
}

// Of many inputs, at most twice the limit is kept; one that is used again and again stays.
func TestBound(t *testing.T) {
	var m Memo[int]
	computed := 0
	use := func(input string) {
		if _, err := m.Do(func() (int, error) { computed++; return 0, nil }, []byte(input)); err != nil {
			t.Fatal(err)
		}
	}
	const size, inputs = 4 << 10, 2000
	for n := range inputs {
		use("often")
		use(strings.Repeat(fmt.Sprintf("%04d", n), size/4))
		if kept := len(m.young) + len(m.old); kept > 2*limit/size+2 {
			t.Fatalf("%d results are kept", kept)
		}
	}
	if computed != inputs+1 {
		t.Errorf("%d results were computed, want %d", computed, inputs+1)
	}
}
