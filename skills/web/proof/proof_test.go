package proof

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestOccurs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, quote string
		want        bool
	}{
		"the same":                    {"The limit is 60 requests.", "limit is 60 requests", true},
		"white space":                 {"The limit\n\tis 60\u00a0requests.", " limit is  60 requests ", true},
		"composed":                    {"Le cafe\u0301 ferme.", "caf\u00e9 ferme", true},
		"soft hyphen":                 {"The docu\u00admentation says.", "documentation says", true},
		"a joiner that is not shown":  {"ad\u200bmin users", "admin users", true},
		"compatibility form":          {"It takes 10² bytes.", "takes 102 bytes", false},
		"another case":                {"The limit is 60.", "the limit is", false},
		"another word":                {"The limit is 60.", "The limit is 70", false},
		"words in between":            {"The old limit is 60.", "The limit is", false},
		"a word cut at its beginning": {"This is impossible today.", "possible today", false},
		"a word cut at its end":       {"It is fastened.", "It is fast", false},
		"cut first, whole later":      {"impossible today, possible today", "possible today", true},
		"a fraction":                  {"It takes 1.5 ms a call.", "5 ms a call", false},
		"a decimal that goes on":      {"Since version 1.25 it works.", "Since version 1.2", false},
		"a point at the end":          {"Since version 1. Later more.", "Since version 1", true},
		"thousands":                   {"up to 60,000 requests", "up to 60", false},
		"a sign":                      {"at -5 degrees", "5 degrees", false},
		"a hyphen in a word":          {"the x86-64 systems", "64 systems", true},
		"a mark that is cut off":      {"naı\u0323 ve words", "na\u0131", false},
		"no spaces":                   {"私は東京に住んでいます。", "東京に住んで", true},
		"empty":                       {"text", "", false},
		"invalid bytes":               {"a \xff b text", "a \xff b text", true},
	} {
		if got := Occurs(Normalize(tt.text), Normalize(tt.quote)); got != tt.want {
			t.Errorf("%s: Occurs(%q, %q) = %v, want %v", name, tt.text, tt.quote, got, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	all := []Claim{
		{"It allows 60.", 1, "60 requests an hour"},
		{"It allows 70.", 1, "70 requests an hour"},
		{"Elsewhere.", 3, "60 requests an hour"},
		{"No page.", 0, "60 requests an hour"},
		{"Short.", 1, "60"},
		{" ", 1, "60 requests an hour"},
		{"The second.", 2, "is free of charge"},
	}
	proved, kept, removed := Check(all, []string{"You have 60 requests\nan hour.", "It is free of charge."})
	if diff := cmp.Diff([]Claim{all[0], all[6]}, proved); diff != "" {
		t.Errorf("proved (-want +got):\n%s", diff)
	}
	var reasons []string
	for _, r := range removed {
		reasons = append(reasons, r.Reason)
	}
	want := []string{"the quotation does not occur in source 1", "there is no source 3", "there is no source 0", "the quotation is too short to prove anything", "it says nothing"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	steps, dropped := Rest([]Step{{"Begin.", []int{7, 1}}, {"Then.", []int{2}}, {"Half.", []int{1, 2}}, {"Free.", nil}}, kept)
	if diff := cmp.Diff([]Step{{"Begin.", []int{2, 1}}}, steps); diff != "" || len(dropped) != 3 {
		t.Errorf("steps (-want +got):\n%s and %d dropped", diff, len(dropped))
	}
}

// Every span of a text that consists of whole words occurs in it, also written with other white space; and a text that occurs is
// really there.
func FuzzOccurs(f *testing.F) {
	f.Add("The limit is 60 requests.", 1, 3, "limit")
	f.Add("cafe\u0301 \u00ad ferme", 0, 1, "\u200b")
	f.Add("\xff\xfe 10² a-b", 0, 9, "10")
	f.Fuzz(func(t *testing.T, text string, from, to int, quote string) {
		n := Normalize(text)
		if again := Normalize(n); again != n || !utf8.ValidString(n) {
			t.Fatalf("Normalize is not idempotent: %q becomes %q", n, again)
		}
		words := strings.Fields(n)
		if from >= 0 && from < to && to <= len(words) {
			if span := strings.Join(words[from:to], " "); !Occurs(n, span) {
				t.Errorf("the span %q of %q does not occur in it", span, n)
			}
			if other := Normalize(strings.Join(words[from:to], "\u00a0\r\n\u200b\t")); !Occurs(n, other) {
				t.Errorf("with other white space, the span %q of %q does not occur in it", other, n)
			}
		}
		if q := Normalize(quote); Occurs(n, q) && !strings.Contains(n, q) {
			t.Errorf("%q occurs in %q, which does not hold it", q, n)
		}
	})
}
