package grep

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naive is what a Scanner has to find, line by line.
func naive(re *regexp.Regexp, text string, context int) (matches []Match) {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	bare := make([]string, len(lines))
	for i, line := range lines {
		bare[i] = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	}
	offset := 0
	for i, line := range bare {
		if at := re.FindStringIndex(line); at != nil {
			m := Match{Line: i + 1, Column: at[0] + 1, Offset: int64(offset + at[0]), Text: line}
			m.Before = append(m.Before, bare[max(0, i-context):i]...)
			m.After = append(m.After, bare[i+1:min(len(bare), i+1+context)]...)
			matches = append(matches, m)
		}
		offset += len(lines[i])
	}
	return matches
}

func TestScanFindsWhatEachLineHas(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	queries := []struct {
		Query
		same string // as an expression for one line
	}{
		{Query{Pattern: "ab"}, `ab`},
		{Query{Pattern: "a"}, `a`},
		{Query{Pattern: "a.c"}, `a\.c`},
		{Query{Pattern: "AB", IgnoreCase: true}, `[aA][bB]`},
		{Query{Pattern: "bäa", IgnoreCase: true}, `(?i)bäa`},
		{Query{Pattern: "ab", Word: true}, `(?:^|\W)(?:ab)(?:\W|$)`},
		{Query{Pattern: "ab", Word: true, Regexp: true}, `\bab\b`},
		{Query{Pattern: "a+b", Regexp: true}, `a+b`},
		{Query{Pattern: "ab|cc|ba", Regexp: true}, `ab|cc|ba`},
		{Query{Pattern: "a(bc|cb)+.", Regexp: true}, `a(bc|cb)+.`},
		{Query{Pattern: "^ab", Regexp: true}, `^ab`},
		{Query{Pattern: "a$", Regexp: true}, `a$`},
		{Query{Pattern: "^$", Regexp: true}, `^$`},
		{Query{Pattern: `\s[ab]`, Regexp: true}, `\s[ab]`},
		{Query{Pattern: `[^a]b?c`, Regexp: true}, `[^a]b?c`},
		{Query{Pattern: `x*`, Regexp: true}, `x*`},
		{Query{Pattern: `a(?s:.)*c`, Regexp: true}, `a(?s:.)*c`},
		{Query{Pattern: `\Aab|c\z`, Regexp: true}, `\Aab|c\z`},
		{Query{Pattern: `ask|BAS`, Regexp: true, IgnoreCase: true}, `(?i)ask|BAS`},
		{Query{Pattern: `(?i)ks`, Regexp: true}, `(?i)ks`},
		{Query{Pattern: `abc|`, Regexp: true}, `abc|`},
	}
	for round := range 100 {
		text := ""
		for range r.IntN(60) {
			text += []string{"a", "b", "c", "ab", "bc", "\n", "\n", "\r\n", " ", "x", "ä", "A", "B", "k", "s", "K", "ſ", ".", "_", "\r"}[r.IntN(20)]
		}
		for _, q := range queries {
			m, err := Compile(q.Query)
			if err != nil {
				t.Fatal(err)
			}
			re := regexp.MustCompile(q.same)
			for _, context := range []int{0, 2} {
				want := naive(re, text, context)
				if q.Word && !q.Regexp { // the expression takes the characters around along
					for i := range want {
						if s := want[i].Text[want[i].Column-1:]; s[0] != 'a' {
							n := strings.Index(s, "a")
							want[i].Column, want[i].Offset = want[i].Column+n, want[i].Offset+int64(n)
						}
					}
				}
				// A block that takes it all, and one that is too small again and again.
				for _, size := range []int{firstBlock, 1 + r.IntN(20)} {
					s := Scanner{Matcher: m, Options: Options{Context: context, Binary: true}, block: make([]byte, size)}
					got, err := s.Scan(t.Context(), &stutter{r: strings.NewReader(text), n: 1 + r.IntN(9)}, int64(len(text)))
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got.Matches); diff != "" || got.Count != len(want) {
						t.Fatalf("seed %d, round %d, block %d: %+v in %q, -want +got:\n%s", seed, round, size, q.Query, text, diff)
					}
				}
			}
		}
	}
}

// TestWords checks that a letter beyond ASCII is not a part of a word, with and without case.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, line string
		want          bool
	}{
		{"café", "un café noir", true},
		{"café", "café", true},
		{"café", "caféx", false},
		{"café", "xcafé", false},
		{"été", "un été", true},
		{"été", "1été", false},
		{"été", "été_", false},
		{"-é-", "a -é- b", true},
		{"-é-", "a-é-b", false},
	} {
		for _, ignore := range []bool{false, true} {
			m, err := Compile(Query{Pattern: tc.pattern, Word: true, IgnoreCase: ignore})
			if err != nil {
				t.Fatal(err)
			}
			s := Scanner{Matcher: m}
			got, err := s.Scan(t.Context(), strings.NewReader(tc.line), int64(len(tc.line)))
			if err != nil || (got.Count > 0) != tc.want {
				t.Errorf("%q in %q, without case %t: %+v, %v", tc.pattern, tc.line, ignore, got, err)
			}
		}
	}
}

// stutter reads a few bytes at a time.
type stutter struct {
	r *strings.Reader
	n int
}

func (s *stutter) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

// An expression with more states than a sieve keeps is found all the same.
func TestSieveForgets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 5))
	var text strings.Builder
	for range 3000 {
		for range r.IntN(60) {
			text.WriteByte("ab x"[r.IntN(4)])
		}
		text.WriteByte('\n')
	}
	const pattern = `a.{11}b.{3}x$`
	m, err := Compile(Query{Pattern: pattern, Regexp: true})
	if err != nil {
		t.Fatal(err)
	}
	s := Scanner{Matcher: m}
	got, err := s.Scan(t.Context(), strings.NewReader(text.String()), int64(text.Len()))
	if diff := cmp.Diff(len(naive(regexp.MustCompile(pattern), text.String(), 0)), got.Count); diff != "" || err != nil || got.Count == 0 {
		t.Errorf("Scan: %v, -want +got:\n%s", err, diff)
	}
	if n := len(s.sieve.states); n > maxStates {
		t.Errorf("the sieve has %d states", n)
	}
}

func TestNeedles(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`needle_\w+\(`: "needle_", `foo|bar`: "foo bar", `(?i)handler`: "handler", `(?i)class`: "cla", `\w+`: "", `a`: "", `(foo)+x`: "foo", `foo?`: "fo",
		`(?:abc){2,3}`: "abc", `^func main`: "func main", `a|foo`: "", `\w+\(\d`: "(", `\d=\d`: "", `x.*yz`: "yz", `a1|b2|c3|d4|e5|f6|g7|h8|i9`: "",
	} {
		m, err := Compile(Query{Pattern: pattern, Regexp: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range m.needs {
			got = append(got, string(n.text))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the needles of %s are %q, want %q", pattern, got, want)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	for _, q := range []Query{{Pattern: ""}, {Pattern: "a\nb"}, {Pattern: "(", Regexp: true}, {Pattern: `(?=a)`, Regexp: true}, {Pattern: "a{2000}", Regexp: true},
		{Pattern: strings.Repeat("x", maxPattern+1)}, {Pattern: `\8`, Regexp: true}} {
		if _, err := Compile(q); err == nil {
			t.Errorf("Compile(%.20q) is fine", q.Pattern)
		}
	}
}

func TestScanBoundsWhatItKeeps(t *testing.T) {
	t.Parallel()
	m, err := Compile(Query{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 3*MaxBlock) + "needle" + strings.Repeat("ä", 1000) + "\nneedle\n"
	s := Scanner{Matcher: m, Options: Options{MaxLine: 101, Context: 3}}
	got, err := s.Scan(context.Background(), strings.NewReader(long), int64(len(long)))
	if err != nil || got.Count != 2 || len(s.block) > MaxBlock {
		t.Fatalf("Scan = %+v, %v, block %d", got.Count, err, len(s.block))
	}
	if m := got.Matches[0]; m.Offset != 3*MaxBlock || !m.Cut || len(m.Text) > 101 || !strings.Contains(m.Text, "needle") || strings.Contains(m.Text, "\uFFFD") {
		t.Errorf("the long line is %+v", m)
	}
	if m := got.Matches[1]; m.Line != 2 || m.Column != 1 || m.Text != "needle" {
		t.Errorf("the next line is %+v", m)
	}
	many := strings.Repeat("needle\n", 100_000)
	s = Scanner{Matcher: m, Options: Options{Max: 3}}
	if got, err := s.Scan(context.Background(), strings.NewReader(many), int64(len(many))); err != nil || len(got.Matches) != 3 || !got.More {
		t.Errorf("Scan = %d matches, more %t, %v", len(got.Matches), got.More, err)
	}
	s.Options = Options{Count: true}
	if got, err := s.Scan(context.Background(), strings.NewReader(many), int64(len(many))); err != nil || got.Count != 100_000 || got.Matches != nil {
		t.Errorf("Scan = %+v, %v", got.Count, err)
	}
	binary := "needle\x00needle\n"
	if got, err := s.Scan(context.Background(), strings.NewReader(binary), int64(len(binary))); err != nil || !got.Binary || got.Count != 0 {
		t.Errorf("Scan of a binary file = %+v, %v", got, err)
	}
}

func BenchmarkScan(b *testing.B) {
	text := bytes.Repeat([]byte("func handler(ctx context.Context, w http.ResponseWriter) error { return nil }\n"), 10_000)
	for _, q := range []Query{{Pattern: "absent_needle"}, {Pattern: "ABSENT_needle", IgnoreCase: true}, {Pattern: `absent_\w+\d`, Regexp: true}, {Pattern: `\w+\d\d`, Regexp: true}, {Pattern: "handler"}} {
		b.Run(fmt.Sprint(q.Pattern), func(b *testing.B) {
			m, err := Compile(q)
			if err != nil {
				b.Fatal(err)
			}
			s := Scanner{Matcher: m, Options: Options{Count: true}}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := s.Scan(b.Context(), bytes.NewReader(text), int64(len(text))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
