package compile

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// TestRFC8785 is the example of RFC 8785, section 3.2, and the order of its section 3.2.3.
func TestRFC8785(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
	} {
		got, err := canonicalJSON([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("canonical(%s) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

// TestRFC6901 escapes the names of RFC 6901, section 5, as segments of pointers.
func TestRFC6901(t *testing.T) {
	for name, want := range map[string]string{
		"foo": "foo", "": "", "a/b": "a~1b", "c%d": "c%d", "e^f": "e^f", "g|h": "g|h", `i\j`: `i\j`, `k"l`: `k"l`, " ": " ", "m~n": "m~0n", "~1": "~01",
	} {
		if got := finding.EscapePointer(name); got != want {
			t.Errorf("finding.EscapePointer(%q) = %q, want %q", name, got, want)
		}
	}
}
