package dashboard

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
)

// TestRestoreLineEnds: a text that was not edited is saved byte for byte, whatever its line ends are, and an edit changes no line but
// its own.
func TestRestoreLineEnds(t *testing.T) {
	t.Parallel()
	asSent := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace // by a browser
	for _, old := range []string{"", "\n", "a", "a\n", "a\r\nb\r\n", "a\nb\r\nc\rd", "\r\r\n\n", "{\r\n\t\"x-own\": 1,\n\"b\":2}\n\n"} {
		if got := restoreLineEnds(old, asSent(old)); got != old {
			t.Errorf("%q is saved as %q", old, got)
		}
	}
	for _, tt := range []struct{ old, edited, want string }{
		{"a\r\nb\nc\r\n", "a\nb\nX\nc\n", "a\r\nb\nX\r\nc\r\n"},
		{"a\nb\rc", "a\nB\nc", "a\nB\rc"},
		{"a\r\nb", "a\nb\n", "a\r\nb\r\n"},
		{"a\nb\n", "", ""},
		{"", "x\r\ny", "x\ny"},
		{"a\r\na\n", "a\n", "a\r\n"},
	} {
		if got := restoreLineEnds(tt.old, tt.edited); got != tt.want {
			t.Errorf("%q edited to %q is %q, want %q", tt.old, tt.edited, got, tt.want)
		}
	}
}

// TestInputFields: an input of a flow has the field of its type, and its text becomes a value of the type.
func TestInputFields(t *testing.T) {
	t.Parallel()
	form := map[string]string{"in.s": "5\r\n6", "in.n": "5", "in.b": "true", "in.any": `{"a":1}`, "in.word": "yes, do", "in.list": `["x"]`, "in.pick": "two", "in.empty": ""}
	var fields []field
	for _, in := range []api.FlowInput{
		{Name: "s", Types: []string{"string", "null"}}, {Name: "n", Types: []string{"integer"}}, {Name: "b", Types: []string{"boolean"}}, {Name: "any"},
		{Name: "word", Types: []string{"string", "array"}}, {Name: "list", Types: []string{"array"}}, {Name: "pick", Choices: []string{"one", "two"}}, {Name: "empty", Required: true},
	} {
		fields = append(fields, makeInputField(in))
	}
	input, err := readInputs(fields, func(name string) string { return form[name] })
	if want := `{"any":{"a":1},"b":true,"list":["x"],"n":5,"pick":"two","s":"5\n6","word":"yes, do"}`; err != nil || string(input) != want {
		t.Errorf("the input is %s: %v, want %s", input, err, want)
	}
	form["in.list"] = "x"
	if _, err := readInputs(fields, func(name string) string { return form[name] }); err == nil || !strings.Contains(err.Error(), "the input list is not JSON") {
		t.Errorf("text for an array: %v", err)
	}
}
