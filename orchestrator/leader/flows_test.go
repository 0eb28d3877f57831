package leader_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestFlows works on flow files over the interface. A file is read and written byte for byte, nothing outside of the folder is
// reached, a text that changed in between stays, and each new text has its audit entry before it.
func TestFlows(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "flows")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	odd := strings.Replace(ask, "{", "{\r\n \"x-own\" : [1.0],\n\r", 1)
	write(filepath.Join(folder, "ask.json"), odd)
	write(filepath.Join(folder, "test-only.json"), `{"description":"mine"}`)
	write(filepath.Join(folder, "binary.json"), "\xff")
	write(filepath.Join(base, "outside.json"), `{"secret":1}`)
	if err := os.Symlink("../outside.json", filepath.Join(folder, "link.json")); err != nil {
		t.Fatal(err)
	}
	l, _ := lead(t, home.Home(t.TempDir()), func(c *leader.Config) { c.Flows.Folders = []string{folder} })
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	d := newDescription(t, []byte(api.Description()))
	call := func(method, path, body string, out any) *fault.Error {
		t.Helper()
		resp := send(t, server, method, api.Root+path, body, "Idempotency-Key", "k")
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := route.Find(api.Routes(nil), method, api.Root+path)
		d.check(r, resp.StatusCode != 200, text)
		p := new(fault.Error)
		if resp.StatusCode == 200 {
			p, err = nil, json.Unmarshal(text, out)
		} else {
			err = json.Unmarshal(text, p)
		}
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return p
	}
	save := func(name, text, was string) (api.FlowDocument, *fault.Error) {
		t.Helper()
		body, _ := json.Marshal(api.FlowSave{Text: text, Was: was})
		var doc api.FlowDocument
		return doc, call("POST", "/flows/"+name, string(body), &doc)
	}
	refused := func(p *fault.Error, code string) {
		t.Helper()
		if p == nil || p.Fault.Code != code {
			t.Errorf("%v, want %s", p, code)
		}
	}

	var list []api.FlowView
	call("GET", "/flows", "", &list)
	said := map[string]string{}
	for _, v := range list {
		said[v.Name] = v.Description + "|" + v.Problem
	}
	if said["test-only"] != "mine|" || !strings.Contains(said["link"], "escapes") || !strings.Contains(said["binary"], "not text in UTF-8") || said["best-of-n"] == "" {
		t.Errorf("the flows are %q", said)
	}
	var doc, loaded api.FlowDocument
	if p := call("GET", "/flows/ask", "", &loaded); p != nil || loaded.Text != odd {
		t.Errorf("loaded %q: %v", loaded.Text, p)
	}
	for name, code := range map[string]string{"link": "flow_unreadable", "none": "flow_not_found", "..%2Foutside": "flow_name", ".hidden": "flow_name", "binary": "flow_unreadable"} {
		refused(call("GET", "/flows/"+name, "", &doc), code)
		if code != "flow_not_found" {
			_, p := save(name, "{}", "")
			refused(p, code)
		}
	}

	if _, p := save("ask", loaded.Text, loaded.Sum); p != nil {
		t.Error(p)
	}
	edited := strings.Replace(odd, "[1.0]", "[2.0]", 1)
	if _, p := save("ask", edited, loaded.Sum); p != nil {
		t.Error(p)
	}
	_, p := save("ask", odd, loaded.Sum)
	refused(p, "flow_changed")
	_, p = save("ask", odd, "")
	refused(p, "file_exists")
	if _, p := save("made", "{", ""); p != nil { // a draft
		t.Error(p)
	}
	text, err := os.ReadFile(filepath.Join(folder, "ask.json"))
	info, _ := os.Stat(filepath.Join(folder, "ask.json"))
	if err != nil || string(text) != edited || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %q, %v: %v", text, info.Mode(), err)
	}
	if outside, _ := os.ReadFile(filepath.Join(base, "outside.json")); string(outside) != `{"secret":1}` {
		t.Errorf("the file outside is %s", outside)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
		t.Errorf("left: %s", left)
	}

	check := func(text string) (report api.FlowReport) {
		t.Helper()
		body, _ := json.Marshal(api.FlowCheck{Text: text})
		if p := call("POST", "/flows/check", string(body), &report); p != nil {
			t.Fatal(p)
		}
		return report
	}
	if r := check(ask); !r.OK || !strings.HasPrefix(r.Graph, "<svg") {
		t.Errorf("the report is %+v", r)
	}
	if r := check("{\n \"execir_version\": 1,,"); r.OK || len(r.Findings) != 1 || r.Findings[0].Line != 2 || r.Findings[0].Column != 22 {
		t.Errorf("the report is %+v", r)
	}
	var run, again api.RunView
	body, _ := json.Marshal(api.FlowRun{Text: ask})
	if p := call("POST", "/flows/ask/run", string(body), &run); p != nil || run.Flow != "ask" {
		t.Fatalf("the run is %+v: %v", run, p)
	}
	if call("POST", "/flows/ask/run", string(body), &again); again.RunID != run.RunID {
		t.Errorf("a request that came twice began %s and %s", run.RunID, again.RunID)
	}
	refused(call("POST", "/flows/ask/run", `{"text":"{}"}`, &run), "flow_invalid")

	bare, _ := lead(t, home.Home(t.TempDir()))
	_, err = bare.SaveFlow(t.Context(), "x", api.FlowSave{Text: "{}"})
	refused(fault.As(err), "no_flow_folder")

	var kinds []string
	if err := l.AuditEntries(t.Context(), "", 0, func(e audit.Entry) error {
		if e.Kind == audit.Flow || e.Kind == audit.RunStarted {
			kinds = append(kinds, string(e.Kind)+" "+e.Subject)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "flow flow:ask, flow flow:made, run.started run:" + run.RunID; strings.Join(kinds, ", ") != want {
		t.Errorf("the audit log has %q, want %q", kinds, want)
	}
}
