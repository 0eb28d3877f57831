package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
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

// editorOf is a leader that remembers which documents it was told to run and to save.
type editorOf struct {
	crowd
	ran, saved []string
}

func (e *editorOf) RunFlow(_ context.Context, _ string, r api.FlowRun) (api.RunView, error) {
	e.ran = append(e.ran, r.Text)
	return api.RunView{RunID: "run_1"}, nil
}

func (e *editorOf) SaveFlow(_ context.Context, name string, r api.FlowSave) (api.FlowDocument, error) {
	e.saved = append(e.saved, r.Text)
	return api.FlowDocument{FlowView: api.FlowView{Name: name}, Text: r.Text}, nil
}

// TestFlowRoles: a viewer only looks at the page of a flow, an operator runs the document that it shows, edited or not, and only an
// admin saves one. The page shows only forms that the caller may send.
func TestFlowRoles(t *testing.T) {
	t.Parallel()
	const edited = `{"edited":true}`
	for _, tt := range []struct {
		role        route.Role
		runs, saves bool
	}{{route.Viewer, false, false}, {route.Operator, true, false}, {route.Admin, true, true}} {
		e := &editorOf{crowd: crowd{size: 1}}
		visit := func(method, path string) *httptest.ResponseRecorder {
			form := url.Values{"text": {edited}, "key": {"k"}, "as": {"x"}, "was": {""}, "repo": {"r"}}
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			New(e).Serve(w, r, Visitor{Who: audit.Who{Name: "a"}, Role: tt.role, CSRF: "c"})
			return w
		}
		page := visit("GET", "/flows/x").Body.String()
		if got := strings.Contains(page, `action="/flows/x/run"`); got && !tt.runs {
			t.Errorf("the page shows a %s the form that runs", tt.role)
		}
		if got := strings.Contains(page, ">Save</button>"); got != tt.saves {
			t.Errorf("the page shows a %s the form that saves: %v", tt.role, got)
		}
		for path, may := range map[string]bool{"/flows/x/run": tt.runs, "/flows/x/save": tt.saves} {
			if w := visit("POST", path); (w.Code == http.StatusForbidden) == may {
				t.Errorf("POST %s of a %s: %d %s", path, tt.role, w.Code, w.Body)
			}
		}
		if ran := strings.Join(e.ran, ""); (ran == edited) != tt.runs {
			t.Errorf("a %s ran %q", tt.role, ran)
		}
		if saved := strings.Join(e.saved, ""); (saved == edited) != tt.saves {
			t.Errorf("a %s saved %q", tt.role, saved)
		}
	}
}
