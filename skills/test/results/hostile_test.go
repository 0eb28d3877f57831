package results_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/test/results"
)

// repeated is a text that comes out n times, without being held.
func repeated(text string, n int) io.Reader {
	return io.LimitReader(&endless{text: text}, int64(len(text))*int64(n))
}

type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], e.text[e.at:])
		n += k
		e.at = (e.at + k) % len(e.text)
	}
	return n, nil
}

// Whatever its size and form, a report is read in bounded memory, or refused.
func TestHostileReports(t *testing.T) {
	many := strings.Repeat("x", 3000)
	for _, tc := range []struct {
		name   string
		format results.Format
		report io.Reader
		fails  bool
	}{
		{"entities that double", results.FormatJUnit, strings.NewReader(`<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>` +
			`<testsuite><testcase name="&b;"><failure message="&c;">&b;&c;</failure></testcase></testsuite>`), false},
		{"deep elements", results.FormatJUnit, repeated("<a>", 1<<20), true},
		{"deep suites", results.FormatJUnit, repeated(`<testsuite name="s">`, 1<<18), true},
		{"a huge attribute", results.FormatJUnit, io.MultiReader(strings.NewReader(`<testcase name="`), repeated("y", 8<<20), strings.NewReader(`"/>`)), false},
		{"huge text", results.FormatJUnit, io.MultiReader(strings.NewReader(`<testsuite><testcase name="a"><failure>`), repeated("y\n", 1<<20), strings.NewReader(`</failure></testcase></testsuite>`)), false},
		{"closes too much", results.FormatJUnit, strings.NewReader("<a></a></a>"), true},
		{"many cases", results.FormatJUnit, io.MultiReader(strings.NewReader("<testsuite>"), repeated(`<testcase name="a"><failure message="no"/></testcase>`, 80_000), strings.NewReader("</testsuite>")), false},
		{"trx without end", results.FormatTRX, repeated(`<UnitTestResult testName="a" outcome="Failed"><Output>`, 1<<16), true},
		{"deep objects", results.FormatCTRF, repeated(`{"a":`, 1<<20), true},
		{"deep arrays", results.FormatJest, io.MultiReader(strings.NewReader(`{"x":`), repeated(`[`, 1<<20)), true},
		{"deep inside a test", results.FormatCTRF, io.MultiReader(strings.NewReader(`{"results":{"tests":[`), repeated(`[`, 1<<20)), true},
		{"an array for an object", results.FormatRSpec, strings.NewReader(`[]`), true},
		{"another type", results.FormatJest, strings.NewReader(`{"testResults":[{"name":7,"assertionResults":"x"},null,3]}`), false},
		{"a number for an array", results.FormatMocha, strings.NewReader(`{"failures":7}`), true},
		{"TAP that never ends a suite", results.FormatTAP, repeated("    not ok 1 - a\n      ---\n      stack: |\n        "+many+"\n      ...\n", 6_000), false},
		{"TAP blocks of empty lines", results.FormatTAP, repeated("ok 1\n  ---\n  stack: |\n"+strings.Repeat("\n", 60_000)+"  ...\n", 500), false},
		{"TAP comments", results.FormatTAP, repeated("not ok 1 - a\n# "+many+"\n", 6_000), false},
		{"TAP plan", results.FormatTAP, strings.NewReader("1..999999999999\nok\n"), false},
		{"TAP depth", results.FormatTAP, strings.NewReader(strings.Repeat(" ", 1<<20) + "ok 1\n"), false},
		{"go tests", results.FormatGo, &numbered{form: `{"Action":"output","Package":"p","Test":"T%d","Output":"` + many + `"}` + "\n", n: 6_000}, false},
		{"go packages", results.FormatGo, &numbered{form: `{"Action":"output","Package":"p%d","Output":"` + many + `"}` + "\n", n: 6_000}, false},
		{"go sub-tests in each other", results.FormatGo, io.MultiReader(deepGoTests(500), &numbered{form: `{"Action":"fail","Package":"p","Test":"` + strings.Repeat("a/", 500) + `%d"}` + "\n", n: 15_000}), false},
		{"libtest", results.FormatLibtest, io.MultiReader(strings.NewReader("running 99999999 tests\n"), &numbered{form: "---- t%d stdout ----\n" + many + "\n", n: 6_000}), false},
		{"libtest, messages without end", results.FormatLibtest, io.MultiReader(strings.NewReader("running 99999999 tests\n"), &numbered{form: "test t%[1]d ... FAILED\n---- t%[1]d stdout ----\n" + strings.Repeat("thread 'a' panicked at '"+many+"\n", 200) + "failures:\n", n: 25}), false},
		{"unittest", results.FormatUnittest, repeated(strings.Repeat("=", 70)+"\nFAIL: a (b.c)\n"+strings.Repeat("-", 70)+"\n"+many+"\n", 6_000), false},
		{"a line without end", results.FormatTAP, repeated("ok ", 10<<20), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var s results.Set
			err := tc.format.Parse(tc.report, "", &s)
			runtime.GC()
			runtime.ReadMemStats(&after)
			if (err != nil) != tc.fails {
				t.Errorf("Parse = %v", err)
			}
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 48<<20 {
				t.Errorf("%d MiB are held", held>>20)
			}
			check(t, &s)
			for _, f := range s.Failing {
				if strings.Contains(f.Message+f.Detail+f.Name, "root:") {
					t.Errorf("an entity was read from a file: %+v", f)
				}
			}
			runtime.KeepAlive(&s)
		})
	}
}

// deepGoTests are tests with output that lie in each other.
func deepGoTests(depth int) io.Reader {
	var b strings.Builder
	for i := range depth {
		line := `{"Action":"output","Package":"p","Test":"` + strings.Repeat("a/", i) + `a","Output":"x\n"}` + "\n"
		b.WriteString(strings.Repeat(line, 40))
	}
	return strings.NewReader(b.String())
}

// numbered is a form with rising numbers.
type numbered struct {
	form string
	i, n int
	rest string
}

func (r *numbered) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.i++; r.i > r.n {
			return 0, io.EOF
		}
		r.rest = fmt.Sprintf(r.form, r.i)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// A report beyond the limit tells what was before it, and says so.
func TestReportsAreCut(t *testing.T) {
	var s results.Set
	err := results.FormatTAP.Parse(io.MultiReader(strings.NewReader("not ok 1 - a\n"), repeated("# a comment of some length\n", 13<<17)), "", &s)
	if !errors.Is(err, results.ErrTooLarge) || s.Counts.Failed != 1 {
		t.Errorf("Parse = %v, %+v", err, s.Counts)
	}
}

func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext":                     "plain\n\ttext",
		"\x1b[31;1mred\x1b[0m":              "red",
		"\x1b]0;title\x07a\x1b]8;;u\x1b\\b": "ab",
		"\x1b":                              "",
		"a\x1b[":                            "a",
		"a\r\nb\rc":                         "a\nb\nc",
		"nul\x00 bel\x07 del\x7f":           "nul bel del",
		"bad \xff\xfe":                      "bad \uFFFD\uFFFD",
		"turn \u202eabc\u2066":              "turn abc",
		"c1 \u009b31m":                      "c1 31m",
		"␛[31mfrom XML":                     "from XML",
		"größer als ✓":                      "größer als ✓",
	} {
		if got := results.Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

// XML in other encodings, and with characters that XML forbids, is read all the same.
func TestDocumentsThatAreNoUTF8(t *testing.T) {
	const doc = `<?xml version="1.0" encoding="%s"?><testcase name="a"><failure message="%s"/></testcase>`
	wide := "\xff\xfe"
	for _, r := range fmt.Sprintf(doc, "UTF-16", "größe") {
		wide += string([]byte{byte(r), byte(r >> 8)})
	}
	for name, tc := range map[string][2]string{
		"UTF-16":        {wide, "größe"},
		"Latin 1":       {fmt.Sprintf(doc, "ISO-8859-1", "gr\xf6\xdfe"), "gr\uFFFD\uFFFDe"},
		"mark":          {"\ufeff" + fmt.Sprintf(doc, "UTF-8", "größe"), "größe"},
		"control codes": {fmt.Sprintf(doc, "UTF-8", "a\x1b[31mred\x1b[0m\x00"), "ared\uFFFD"},
	} {
		s, err := parse(results.FormatJUnit, []byte(tc[0]))
		if err != nil || len(s.Failing) != 1 || s.Failing[0].Message != tc[1] {
			t.Errorf("%s: %v, %+v, want message %q", name, err, s.Failing, tc[1])
		}
	}
}

// Equal failures have equal fingerprints, whatever the clock, the machine and the order; others have others.
func TestFingerprint(t *testing.T) {
	print := func(cases ...results.Case) string {
		var s results.Set
		for _, c := range cases {
			c.Status = results.Failed
			s.Add(c)
		}
		return s.Fingerprint()
	}
	a := results.Case{ID: "a", Message: "got 1, want 2 in 0.31s at 0xc000123 of /tmp/x1/f.go:12, line 7, goroutine 5, 127.0.0.1:4021, 2026-01-02T03:04:05Z"}
	b := results.Case{ID: "b", Message: "no"}
	same := results.Case{ID: "a", Message: "got 1, want 2 in 12ms at 0xc000999 of /tmp/x2/f.go:99, line 8, goroutine 9, 127.0.0.1:9999, 2027-02-03T04:05:06Z"}
	if print(a, b) != print(b, same) {
		t.Error("durations, addresses, paths, lines, ports or dates change the fingerprint")
	}
	for name, other := range map[string]string{
		"an id":     print(results.Case{ID: "c", Message: a.Message}, b),
		"a number":  print(results.Case{ID: "a", Message: strings.Replace(a.Message, "got 1", "got 3", 1)}, b),
		"a kind":    print(results.Case{ID: "a", Message: a.Message, Kind: results.Panic}, b),
		"a failure": print(a),
		"none":      print(),
	} {
		if other == print(a, b) {
			t.Errorf("%s more or less has the same fingerprint", name)
		}
	}
}
