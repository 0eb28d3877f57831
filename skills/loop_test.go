package skills

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const loopDir = ".lattice/loop/"

// has fails the test unless a file of the loop contains text.
func (s *sprite) has(name, text string) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, loopDir, name))
	if err != nil || !strings.Contains(string(data), text) {
		s.t.Errorf("%s = %s (%v), want %q in it", name, data, err, text)
	}
}

// lacks fails the test if a file of the loop exists.
func (s *sprite) lacks(name string) {
	s.t.Helper()
	if _, err := os.Lstat(filepath.Join(s.dir, loopDir, name)); err == nil {
		s.t.Errorf("%s exists", name)
	}
}

func inputOf(t *testing.T, members map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestLoopBegin(t *testing.T) {
	s := newSprite(t)
	s.write(loopDir+"state.json", `{"status":"DONE","summary":"of an earlier iteration"}`)
	s.write(loopDir+"response.json", `{"answer":"old"}`)
	task := []any{map[string]any{"description": "say four", "passes": false, "id": 7}}
	begun := s.must("loop.begin", inputOf(t, map[string]any{"spec": "Say four.", "tasks": task, "limits": map[string]any{"max_cost_usd": 5}, "agent_limits": map[string]any{"max_cost_usd": 9, "max_turns": 3}}))
	if begun["next"] != "work" || begun["iteration"] != 1.0 || !strings.Contains(begun["prompt"].(string), "Iteration 1 of max 50.\nIncomplete tasks: 1 of 1.\n- [ ] say four") {
		t.Errorf("loop.begin = %v", begun)
	}
	if l := begun["agent_limits"].(map[string]any); l["max_cost_usd"] != 5.0 || l["max_turns"] != 3.0 {
		t.Errorf("limits of the agent = %v, want the rest of the loop's", l)
	}
	s.lacks("state.json")
	s.lacks("response.json")
	s.has("spec.md", "Say four.")
	s.has("tasks.json", `"description": "say four"`)
	s.has("history.json", "[]")

	// Files that a person edited while the loop rested count, and nothing else does.
	memory := map[string]any{"iterations": 1, "recent": []any{map[string]any{"iteration": 1, "decision": "needs_input", "reason": "Which?", "status": "NEEDS_INPUT"}}}
	again := map[string]any{"spec": "Say four.", "tasks": task, "memory": memory, "answer": "this", "resumed": true, "seen": map[string]any{}}
	s.write(loopDir+"tasks.json", `[{"description":"say five","passes":false}]`)
	s.write(loopDir+"spec.md", "Say five.")
	begun = s.must("loop.begin", inputOf(t, again))
	if p := begun["prompt"].(string); begun["iteration"] != 2.0 || !strings.Contains(p, "- [ ] say five") || !strings.Contains(p, "Say five.\n") || !strings.Contains(p, "You asked: Which?\nA person says: this") {
		t.Errorf("loop.begin after an edit = %v", begun)
	}
	s.has("response.json", `"answer": "this"`)
	again["resumed"] = false
	s.write(loopDir+"tasks.json", `broken`)
	if begun = s.must("loop.begin", inputOf(t, again)); !strings.Contains(begun["prompt"].(string), "- [ ] say four") {
		t.Errorf("loop.begin took over a list that no person edited: %v", begun)
	}

	// A person decides by writing state.json.
	again["resumed"] = true
	s.write(loopDir+"state.json", `{"status":"DONE","summary":"by hand"}`)
	if begun = s.must("loop.begin", inputOf(t, again)); begun["next"] != "read" {
		t.Errorf("loop.begin with a state of a person = %v", begun)
	}
	s.has("state.json", "by hand")

	s.write(loopDir+"stop", "")
	again["resumed"] = false
	for range 2 { // it may be repeated
		if begun = s.must("loop.begin", inputOf(t, again)); begun["next"] != "stop" {
			t.Errorf("loop.begin with a request to stop = %v", begun)
		}
	}
	again["resumed"] = true
	s.must("loop.begin", inputOf(t, again))
	s.lacks("stop")
	for name, text := range map[string]string{"tasks.json": `{"a":`, "state.json": `{"status":"FINE"}`} {
		s.write(loopDir+name, text)
		s.fails("loop.begin", inputOf(t, again), 1, "loop_file")
		s.write(loopDir+name, `[]`)
		os.Remove(filepath.Join(s.dir, loopDir, name))
	}
	s.fails("loop.begin", `{"spec":"x","limits":{"max_iterations":501}}`, 2, "bad_input")
}

// TestLoopRead has a case for each kind of broken file; none of them is an answer.
func TestLoopRead(t *testing.T) {
	const tasks = `[{"description":"say four","passes":true}]`
	tests := map[string]struct {
		state, tasks, answer string
		plant                func(dir string) error
		status, message      string // of the answer; "" for an error
	}{
		"file":                   {state: `{"status":"DONE","summary":"said it"}`, tasks: tasks, status: "DONE", message: "say four\n\nsaid it"},
		"file before answer":     {state: `{"status":"CONTINUE","summary":"f"}`, tasks: tasks, answer: `{"status":"DONE","summary":"a"}`, status: "CONTINUE"},
		"answer":                 {answer: `{"status":"DONE","summary":"a","tasks":` + tasks + `}`, status: "DONE", message: "say four\n\na"},
		"answer with text":       {answer: "I am\n```json\n{\"status\":\"CONTINUE\",\n\"summary\":\"a {b}\"}\n```\n", tasks: tasks, status: "CONTINUE"},
		"last of two answers":    {answer: "{\"status\":\"DONE\"}\n{\"status\":\"BLOCKED\",\"error\":\"no\"}", status: "BLOCKED"},
		"no tasks":               {state: `{"status":"DONE","summary":"x"}`, status: "DONE", message: "x"},
		"nothing":                {},
		"answer without status":  {answer: `{"summary":"a"}`},
		"answer in the text":     {answer: `I would say {"status":"DONE"}`},
		"truncated answer":       {answer: `{"status":"DONE","summary":`},
		"corrupt state":          {state: `{"status":"DO`, answer: `{"status":"DONE"}`},
		"unknown status":         {state: `{"status":"FINISHED"}`},
		"unknown status, answer": {answer: `{"status":"FINE"}`},
		"corrupt tasks":          {state: `{"status":"DONE"}`, tasks: `[{]`},
		"tasks without names":    {state: `{"status":"DONE"}`, tasks: `[{"passes":true}]`},
		"huge state":             {state: `{"status":"DONE","summary":"` + strings.Repeat("x", 70<<10) + `"}`},
		"fifo":                   {plant: func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "state.json"), 0o644) }, answer: `{"status":"DONE"}`},
		"folder":                 {plant: func(dir string) error { return os.Mkdir(filepath.Join(dir, "state.json"), 0o755) }, answer: `{"status":"DONE"}`},
		"link out":               {plant: func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "state.json")) }, answer: `{"status":"DONE"}`},
		"corrupt pr":             {state: `{"status":"DONE"}`, tasks: tasks, plant: func(dir string) error { return os.WriteFile(filepath.Join(dir, "pr.json"), []byte("{"), 0o644) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			for file, text := range map[string]string{"state.json": test.state, "tasks.json": test.tasks, "divergence.md": "none"} {
				if text != "" {
					s.write(loopDir+file, text)
				}
			}
			if test.plant != nil {
				if err := test.plant(filepath.Join(s.dir, loopDir)); err != nil {
					t.Fatal(err)
				}
			}
			input := inputOf(t, map[string]any{"answer": test.answer})
			if test.status == "" {
				s.fails("loop.read", input, 1, "loop_file")
				return
			}
			data := s.must("loop.read", input)
			if state := data["state"].(map[string]any); state["status"] != test.status || test.message != "" && data["message"] != test.message || data["divergence"] != "none" {
				t.Errorf("loop.read = %v, want %s and the message %q", data, test.status, test.message)
			}
		})
	}
}

func TestLoopDecide(t *testing.T) {
	s := newSprite(t)
	task := []any{map[string]any{"description": "say four", "passes": true}}
	red := map[string]any{"tree": "t", "statement": "s", "duration_ms": 20, "commands": []any{
		map[string]any{"argv": []any{"go", "vet"}, "status": "passed", "sha256": "x"},
		map[string]any{"argv": []any{"go", "test"}, "status": "failed", "failures": []any{map[string]any{"id": "TestA", "message": "a.go:1: no"}}},
	}}
	data := s.must("loop.decide", inputOf(t, map[string]any{
		"state": map[string]any{"status": "DONE", "summary": "x"}, "tasks": task, "report": red, "red": "commit c is red", "cost": map[string]any{"usd": 0.5, "source": "reported"}, "agent_ms": 30,
	}))
	memory := data["memory"].(map[string]any)
	if data["decision"] != "refuse" || data["failure"] != "go test: failed\nTestA: a.go:1: no" || memory["cost_usd"] != 0.5 || memory["duration_ms"] != 50.0 {
		t.Errorf("loop.decide = %v", data)
	}
	s.has("session.json", `"status": "running"`)
	green := map[string]any{"tree": "t", "statement": "s", "commands": []any{}}
	data = s.must("loop.decide", inputOf(t, map[string]any{"memory": memory, "state": map[string]any{"status": "DONE", "summary": "x"}, "tasks": task, "report": green, "green": true, "commit": "c"}))
	if data["decision"] != "done" || data["iteration"] != 2.0 {
		t.Errorf("loop.decide = %v, want done", data)
	}
	s.has("session.json", `"status": "completed"`)
	s.has("history.json", `"iteration": 2`)
	if data = s.must("loop.decide", `{"green":true}`); data["decision"] != "crashed" {
		t.Errorf("loop.decide without a state = %v, want crashed", data)
	}
	s.has("session.json", `"status": "stopped"`)
}
