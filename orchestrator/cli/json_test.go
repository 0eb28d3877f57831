package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

// JSON on a terminal has the same values as before, and nothing in it that the terminal would act on: neither in what is
// printed nor in errors.
func TestJSONIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = "a\x7f\u0080\u009b31m\u202e\u2066\u200fé\t\n<&>\u200b\U000e0061"
	var out bytes.Buffer
	env := &Console{Out: &out, Err: &out, JSON: true}
	prints := map[string]func() error{
		"printJSON":     func() error { return env.PrintJSON(map[string]string{"x": hostile}) },
		"printIndented": func() error { return env.PrintIndented(map[string]string{"x": hostile}) },
		"raw": func() error {
			return env.PrintJSON(json.RawMessage(`{"x":"` + strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(hostile) + `"}`))
		},
		"report": func() error {
			env.Report(t.Context(), fault.New(1, "x", "%s", hostile))
			return nil
		},
	}
	for name, print := range prints {
		out.Reset()
		if err := print(); err != nil {
			t.Fatal(err)
		}
		if i := bytes.IndexFunc(out.Bytes(), isControl); i >= 0 || !strings.Contains(out.String(), `\u007f\u0080\u009b31m\u202e\u2066\u200f`+"é") || !strings.Contains(out.String(), `\u200b\udb40\udc61`) {
			t.Errorf("%s prints %q", name, out.String())
		}
		var back struct {
			X     string
			Error struct{ Message string }
		}
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.X+back.Error.Message != hostile {
			t.Errorf("%s does not keep the value: %q, %v", name, back, err)
		}
	}
}
