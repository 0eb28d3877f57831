package loop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/loop"
)

// journal makes a journal of facts. A string that is not a fact names the nodes that began with the fact before.
func journal(t *testing.T, facts ...any) []lattice.Entry {
	t.Helper()
	var all []lattice.Entry
	for _, f := range facts {
		if name, ok := f.(string); ok {
			last := &all[len(all)-1]
			last.Started = append(last.Started, name)
			continue
		}
		fact := f.(lattice.Fact)
		raw, err := json.Marshal(fact)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lattice.Entry{Seq: lattice.Seq(len(all) + 1), Kind: lattice.EntryFact, Type: fact.FactType(), Body: raw})
	}
	return all
}

// finished is a call that ended well, with data.
func finished(t *testing.T, data any) lattice.CallFinished {
	t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return lattice.CallFinished{CommandID: "c1", CallID: "x", OK: true, Data: raw}
}

func TestFold(t *testing.T) {
	var m loop.Memory
	begin := func() lattice.CallFinished {
		return finished(t, map[string]any{"next": "work", "iteration": m.Iterations + 1, "tasks": []loop.Task{{Description: "a"}}})
	}
	decide := func() lattice.CallFinished {
		m = loop.Decide(m, loop.Observation{State: loop.State{Status: loop.Continue}, Tree: string(rune('a' + m.Iterations))}, loop.Limits{})
		return finished(t, map[string]any{"decision": m.Last().Decision, "memory": m})
	}
	read := func(passes bool) lattice.CallFinished {
		return finished(t, map[string]any{"tasks": []loop.Task{{Description: "a", Passes: passes}}, "pr": loop.Pull{Title: "t"}, "divergence": "none"})
	}
	other := finished(t, map[string]any{"memory": loop.Memory{Iterations: 9}})
	first := []any{lattice.TimerFired{}, "begin", begin(), "read", read(true), "verify", other, "decide", decide(), "begin"}
	p, err := Fold(journal(t, first...))
	if err != nil || len(p.Iterations) != 1 || p.Working != 0 || p.Memory.Iterations != 1 || len(p.Tasks) != 1 || !p.Tasks[0].Passes || p.Pull.Title != "t" || p.Divergence != "none" {
		t.Fatalf("Fold = %+v, %v; want one iteration", p, err)
	}
	second := append(first, begin(), "read", read(false), "decide")
	if p, err = Fold(journal(t, second...)); err != nil || len(p.Iterations) != 1 || p.Working != 2 || p.Tasks[0].Passes {
		t.Errorf("Fold = %+v, %v; want to be in iteration 2", p, err)
	}
	if from, to := p.Span(1); from != 2 || to != 6 {
		t.Errorf("iteration 1 is in %d to %d, want 2 to 6", from, to)
	}
	if from, to := p.Span(2); from != 6 || to != 0 {
		t.Errorf("iteration 2 is in %d to %d, want 6 to 0", from, to)
	}
	third := append(second, decide(), "begin")
	if p, err = Fold(journal(t, third...)); err != nil || len(p.Iterations) != 2 || p.Iterations[1].Iteration != 2 || p.Working != 0 {
		t.Errorf("Fold = %+v, %v; want two iterations", p, err)
	}
	back := append(third, lattice.Rewound{Moment: lattice.Moment{Seq: 5, Node: "begin", Visit: 2}, State: json.RawMessage(`{}`)}, "begin")
	if p, err = Fold(journal(t, back...)); err != nil || len(p.Iterations) != 1 || len(p.begun) != 1 {
		t.Errorf("Fold after going back = %+v, %v; want one iteration", p, err)
	}
	// A fork begins with the memory of the other run.
	if p, err = Fold(journal(t, lattice.TimerFired{}, "decide", decide())); err != nil || len(p.Iterations) != 3 {
		t.Errorf("Fold of a fork = %+v, %v; want three iterations", p, err)
	}
	// Events, failed calls and calls of other nodes do not count.
	lied := journal(t, lattice.TimerFired{}, "decide", finished(t, 1))
	lied[1].Kind = lattice.EntryEvent
	if p, err = Fold(lied); err != nil || len(p.Iterations) != 0 {
		t.Errorf("Fold of an event = %+v, %v; want no iteration", p, err)
	}
}

// TestJudge has a row for each exit code and for each state in which done would be a lie.
func TestJudge(t *testing.T) {
	waits := func(node string) []lattice.Wait { return []lattice.Wait{{Node: node, Prompt: "p"}} }
	tests := map[string]struct {
		last    loop.Decision
		status  lattice.RunStatus
		driving bool
		waits   []lattice.Wait
		failed  string
		resting bool
		want    Outcome
		code    int
	}{
		"runs":                    {last: "continue", status: lattice.Running, driving: true, want: Running},
		"killed":                  {last: "continue", status: lattice.Running, want: Interrupted, code: 130},
		"killed before it began":  {status: lattice.Pending, want: Interrupted, code: 130},
		"killed after done":       {last: "done", status: lattice.Running, want: Interrupted, code: 130},
		"done, pushes":            {last: "done", status: lattice.Running, driving: true, want: Running},
		"done, waits":             {last: "done", status: lattice.Waiting, waits: waits("push"), want: "done"},
		"done, asks for a pull":   {last: "done", status: lattice.Waiting, waits: waits("pull"), want: "done"},
		"pushed":                  {last: "done", status: lattice.Succeeded, want: "done"},
		"push without done":       {last: "continue", status: lattice.Waiting, waits: waits("push"), want: "needs_input", code: 75},
		"rejected":                {last: "done", status: lattice.Waiting, waits: waits("stopped"), want: Rejected, code: 1},
		"asks":                    {last: "needs_input", status: lattice.Waiting, waits: waits("ask"), want: "needs_input", code: 75},
		"asks for a permission":   {last: "continue", status: lattice.Waiting, waits: waits("work"), want: "needs_input", code: 75},
		"agent asks as of old":    {last: "continue", status: lattice.BlockedWaitingForUser, want: "needs_input", code: 75},
		"blocked":                 {last: "blocked", status: lattice.Waiting, waits: waits("stopped"), want: "blocked", code: 10},
		"blocked, headless":       {last: "blocked", status: lattice.Failed, failed: "loop_blocked", want: "blocked", code: 10},
		"max iterations":          {last: "max_iterations", status: lattice.Waiting, waits: waits("raise"), want: "max_iterations", code: 11},
		"max iterations headless": {last: "max_iterations", status: lattice.Failed, failed: "loop_max_iterations", want: "max_iterations", code: 11},
		"max cost":                {last: "max_cost", status: lattice.Waiting, waits: waits("raise"), want: "max_cost", code: 12},
		"stuck":                   {last: "stuck", status: lattice.Waiting, waits: waits("stopped"), want: "stuck", code: 13},
		"repeated error":          {last: "repeated_error", status: lattice.Waiting, waits: waits("stopped"), want: "repeated_error", code: 14},
		"crashed":                 {last: "crashed", status: lattice.Failed, failed: "loop_crashed", want: "crashed", code: 15},
		"max duration":            {last: "max_duration", status: lattice.Waiting, waits: waits("raise"), want: "max_duration", code: 124},
		"a person stopped it":     {last: "continue", status: lattice.Waiting, waits: waits("stopped"), resting: true, want: Stopped, code: 130},
		"abandoned":               {last: "done", status: lattice.Canceled, want: Abandoned, code: 130},
		"clone failed":            {status: lattice.Failed, failed: "clone", want: Failed, code: 1},
		"failed after done":       {last: "done", status: lattice.Failed, failed: "push", want: Failed, code: 1},
		"ended without iteration": {status: lattice.Succeeded, want: "", code: 1},
	}
	for name, test := range tests {
		p := Progress{resting: test.resting}
		if test.last != "" {
			p.Memory.Recent = []loop.Entry{{Decision: test.last, Reason: "r"}}
		}
		got, _ := p.Judge(test.status, test.driving, test.waits, test.failed)
		if got != test.want || got.ExitCode() != test.code {
			t.Errorf("%s: Judge = %q with exit code %d, want %q with %d", name, got, got.ExitCode(), test.want, test.code)
		}
	}
}

// TestDocumentNamesTests: each row of the tables of failures and of mistakes in the document names a test that exists.
func TestDocumentNamesTests(t *testing.T) {
	data, err := os.ReadFile("../../docs/loop.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (.*?) \\| .* \\| `([a-z/]+)` ((?:Test[A-Za-z]+|Script/[a-z-]+|, )+) \\|$").FindAllStringSubmatch(string(data), -1)
	letters, failures := "", 0
	for _, row := range rows {
		if len(row[1]) == 1 {
			letters += row[1]
		} else {
			failures++
		}
		for _, test := range strings.Split(row[3], ", ") {
			if !hasTest(t, filepath.Join("../..", row[2]), test) {
				t.Errorf("row %s: %s has no test %s", row[1], row[2], test)
			}
		}
	}
	if letters != "abcdefghijklmno" || failures != 10 {
		t.Errorf("the tables have the rows %q and %d failures", letters, failures)
	}
}

// hasTest reports whether the package in dir has a test function of that name or, for Script/NAME, a script.
func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	if script, isScript := strings.CutPrefix(test, "Script/"); isScript {
		_, err := os.Stat(filepath.Join(dir, "testdata/script", script+".txtar"))
		return err == nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}

func TestImport(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	session := fstest.MapFS{
		"session.json": file(`{"repo":"org/app","branch":"a/b","status":"stopped"}`), "spec.md": file("# Spec\n"), "history.json": file(`[]`),
		"state.json": file(`{"status":"BLOCKED","summary":"x","error":"y"}`),
		"tasks.json": file(`[{"category":"feature","description":"a","steps":["x"],"passes":true},{"category":"test","description":"b","passes":false}]`),
	}
	got, err := Import(session)
	if err != nil || got.Spec != "# Spec" || len(got.Tasks) != 2 || !got.Tasks[0].Passes || got.Tasks[0].Steps[0] != "x" {
		t.Errorf("Import = %+v, %v", got, err)
	}
	for name, text := range map[string]string{"tasks.json": "[", "state.json": `{"status":"FINE"}`, "session.json": "{"} {
		broken := fstest.MapFS{}
		for n, f := range session {
			broken[n] = f
		}
		broken[name] = file(text)
		if _, err := Import(broken); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Import with a broken %s = %v", name, err)
		}
	}
	if _, err := Import(fstest.MapFS{}); err == nil {
		t.Error("Import of an empty folder: no error")
	}
	template, err := ReadTemplate(fstest.MapFS{"iterate.md": file("do\n")})
	if err != nil || template.Instructions != "do" || template.Context != "" {
		t.Errorf("ReadTemplate = %+v, %v", template, err)
	}
	if _, err := ReadTemplate(fstest.MapFS{"other.md": file("x")}); err == nil {
		t.Error("ReadTemplate of a folder without prompts: no error")
	}
}
