package loop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// place is the workspace of a sprite.
type place struct {
	t   *testing.T
	dir string // of the loop's files
	c   *skill.Call
}

func newPlace(t *testing.T) place {
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return place{t, filepath.Join(dir, loop.Dir), &skill.Call{Root: root}}
}

func (p place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) begin(in beginInput) (*beginData, error) {
	p.t.Helper()
	in.Spec = "Say four."
	return beginIteration(p.t.Context(), p.c, in)
}

func (p place) mustBegin(in beginInput) *beginData {
	p.t.Helper()
	out, err := p.begin(in)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p place) decide(in decideInput) *decideData {
	p.t.Helper()
	out, err := decideNext(p.t.Context(), p.c, in)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

const (
	doneState = `{"status":"DONE","summary":"all done"}`
	oneTask   = `[{"description":"a","passes":true}]`
)

// TestFilesOfAnAgent: a file that is not as it has to be is an error that names it, and the iteration a crash, even if the other
// files are sound.
func TestFilesOfAnAgent(t *testing.T) {
	t.Parallel()
	link := func(path string) error { return os.Symlink("/etc/passwd", path) }
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	dir := func(path string) error { return os.Mkdir(path, 0o700) }
	text := func(s string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
	}
	for name, test := range map[string]struct {
		file string
		make func(path string) error
	}{
		"no state":                   {loop.StateFile, func(string) error { return nil }},
		"state cut off":              {loop.StateFile, text(`{"status":"DONE"`)},
		"state empty":                {loop.StateFile, text(``)},
		"state of an unknown status": {loop.StateFile, text(`{"status":"FINE"}`)},
		"state twice":                {loop.StateFile, text(doneState + doneState)},
		"state too large":            {loop.StateFile, text(strings.Repeat(" ", loop.MaxStateBytes) + doneState)},
		"state a link":               {loop.StateFile, link},
		"state a pipe":               {loop.StateFile, fifo},
		"state a folder":             {loop.StateFile, dir},
		"tasks no list":              {loop.TasksFile, text(`{"description":"a","passes":true}`)},
		"tasks cut off":              {loop.TasksFile, text(oneTask[:len(oneTask)-1])},
		"tasks a link":               {loop.TasksFile, link},
		"tasks a pipe":               {loop.TasksFile, fifo},
		"pull request cut off":       {loop.PullFile, text(`{`)},
		"pull request a link":        {loop.PullFile, link},
		"divergence a pipe":          {loop.DivergenceFile, fifo},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			begun := p.mustBegin(beginInput{})
			for file, good := range map[string]string{loop.StateFile: doneState, loop.TasksFile: oneTask} {
				if file != test.file {
					p.write(file, good)
				}
			}
			path := filepath.Join(p.dir, test.file)
			os.RemoveAll(path)
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(begun.Tasks)
			_, err := readAnswer(t.Context(), p.c, readInput{Tasks: raw})
			if f := fault.As(err); f == nil || f.Code != "loop_file" || !strings.Contains(f.Message, test.file) {
				t.Fatalf("readAnswer = %v, want an error about %s", err, test.file)
			}
			if got := p.decide(decideInput{Crash: err.Error(), Green: true}); got.Decision != loop.DecideCrashed || len(got.Memory.Passed) > 0 {
				t.Errorf("the loop is %s after it", got.Decision)
			}
		})
	}
}

// TestStaleState: the state of an earlier call never stands for the answer of a later one.
func TestStaleState(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustBegin(beginInput{})
	p.write(loop.StateFile, doneState)
	p.write(loop.TasksFile, oneTask)
	said, err := readAnswer(t.Context(), p.c, readInput{})
	if err != nil {
		t.Fatal(err)
	}
	decided := p.decide(decideInput{State: &said.State, Tasks: said.Tasks}) // red: it goes on
	for range 2 {                                                           // a call that was cut off is made again
		p.mustBegin(beginInput{Memory: decided.Memory, Tasks: []byte(oneTask), Seen: decided.Seen})
	}
	if _, err := readAnswer(t.Context(), p.c, readInput{}); err == nil {
		t.Error("an agent that wrote no state gave an answer")
	}
}

// TestEditsOfAPerson: files that a person changed while the loop rested count, and no others do.
func TestEditsOfAPerson(t *testing.T) {
	t.Parallel()
	const edited = `[{"description":"a","passes":true},{"description":"b","passes":false}]`
	for name, test := range map[string]struct {
		tasks, state string // "" leaves the file as it is
		next         string
		want         int // tasks
		fails        string
	}{
		"nothing":             {next: nextWork, want: 1},
		"the list":            {tasks: edited, next: nextWork, want: 2},
		"the state":           {state: `{"status":"BLOCKED","error":"x"}`, next: nextRead, want: 1},
		"both":                {tasks: edited, state: doneState + "\n", next: nextRead, want: 2},
		"a list with a typo":  {tasks: edited[1:], fails: "tasks.json is not valid"},
		"a state with a typo": {state: "DONE", fails: "state.json is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.mustBegin(beginInput{})
			p.write(loop.StateFile, doneState)
			p.write(loop.TasksFile, `[ {"passes":true, "description":"a"} ]`)
			said, err := readAnswer(t.Context(), p.c, readInput{})
			if err != nil {
				t.Fatal(err)
			}
			decided := p.decide(decideInput{State: &said.State, Tasks: said.Tasks})
			for file, text := range map[string]string{loop.TasksFile: test.tasks, loop.StateFile: test.state} {
				if text != "" {
					p.write(file, text)
				}
			}
			raw, _ := json.Marshal(decided.Tasks)
			out, err := p.begin(beginInput{Memory: decided.Memory, Tasks: raw, Seen: decided.Seen, Resumed: true})
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("beginIteration = %v, want %s", err, test.fails)
				}
				return
			}
			if err != nil || out.Next != test.next || len(out.Tasks) != test.want {
				t.Errorf("beginIteration = %+v, %v; want %s with %d tasks", out, err, test.next, test.want)
			}
		})
	}
}

// TestStopIsAskedOnce: a loop that rests because a person asked goes on when the person says so.
func TestStopIsAskedOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustBegin(beginInput{})
	p.write(stopFile, "")
	if out := p.mustBegin(beginInput{}); out.Next != nextStop {
		t.Errorf("next is %s, want to stop", out.Next)
	}
	for range 2 {
		if out := p.mustBegin(beginInput{Resumed: true}); out.Next != nextWork {
			t.Errorf("next is %s, want to work", out.Next)
		}
	}
	if out := p.mustBegin(beginInput{}); out.Next != nextWork {
		t.Errorf("next is %s, want to work", out.Next)
	}
}

// TestUndone: tasks that passed only in an iteration whose work was undone do not pass, and do not count as progress.
func TestUndone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustBegin(beginInput{})
	got := p.decide(decideInput{
		State: &loop.State{Status: loop.Done}, Undone: true, Before: []loop.Task{{Description: "a", Passes: true}, {Description: "b"}},
		Tasks: []loop.Task{{Description: "a", Passes: true}, {Description: "b", Passes: true}, {Description: "c", Passes: true}},
	})
	if got.Decision != loop.DecideRefuse || !got.Tasks[0].Passes || got.Tasks[1].Passes || got.Tasks[2].Passes || len(got.Memory.Passed) != 1 {
		t.Errorf("decideNext = %+v", got)
	}
}

// TestLimitsAreOfTheWholeLoop: a call gets the rest of the loop's cost and duration, also after a person had the loop go on, and
// more after a limit was raised.
func TestLimitsAreOfTheWholeLoop(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spent := loop.Memory{Iterations: 3, CostUSD: 1.5, DurationMS: 40_000}
	none := map[string]float64{"max_cost_usd": 0, "wall_s": 0}
	for _, test := range []struct {
		limits     loop.Limits
		given      map[string]float64
		timeout    float64
		usd, wallS float64
	}{
		{loop.Limits{MaxCostUSD: 2, MaxDurationS: 60}, nil, 0, 0.5, 20},
		{loop.Limits{MaxCostUSD: 5, MaxDurationS: 100}, nil, 0, 3.5, 60},
		{loop.Limits{MaxCostUSD: 1, MaxDurationS: 1}, nil, 0, 0.01, 1},
		{loop.Limits{MaxCostUSD: 2, MaxDurationS: 60}, map[string]float64{"max_cost_usd": 0.25, "wall_s": 30}, 0, 0.25, 20},
		{loop.Limits{MaxCostUSD: 2, MaxDurationS: 60}, none, 0, 0.5, 20},
		{loop.Limits{}, none, 0, 0, 0},
		{loop.Limits{MaxDurationS: 30 * 24 * 3600}, nil, 0, 0, 7 * 24 * 3600},
		{loop.Limits{MaxDurationS: 60}, nil, 5, 0, 5}, // wall_s goes before the timeout, which must not lose its effect
		{loop.Limits{MaxDurationS: 60}, nil, 30, 0, 20},
		{loop.Limits{MaxDurationS: 60}, none, 5, 0, 5},
		{loop.Limits{MaxDurationS: 60}, map[string]float64{"wall_s": 10}, 5, 0, 10},
		{loop.Limits{}, nil, 5, 0, 0},
		{loop.Limits{MaxCostUSD: 1e308}, nil, 0, 1e308, 0},
	} {
		got := p.mustBegin(beginInput{Memory: spent, Limits: test.limits, AgentLimits: test.given, AgentTimeout: test.timeout, Resumed: true}).AgentLimits
		if got["max_cost_usd"] != test.usd || got["wall_s"] != test.wallS {
			t.Errorf("the agent gets %v of %+v", got, test.limits)
		}
	}
	state := &loop.State{Status: loop.Continue}
	at := p.decide(decideInput{Memory: spent, State: state, Limits: loop.Limits{MaxIterations: 4}})
	more := p.decide(decideInput{Memory: at.Memory, State: state, Limits: loop.Limits{MaxIterations: 6}, Resumed: true})
	if at.Decision != loop.DecideMaxIterations || !at.Limit || more.Decision != loop.DecideContinue || more.Iteration != 5 {
		t.Errorf("the loop is %s, and with a higher limit %s in iteration %d", at.Decision, more.Decision, more.Iteration)
	}
}

func TestTooManyAgents(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for bestOf, want := range map[int]int{-1: 1, 0: 1, 8: 8} {
		if got := p.mustBegin(beginInput{BestOf: bestOf}); len(got.Tries) != want {
			t.Errorf("with best_of %d there are the tries %v, want %d", bestOf, got.Tries, want)
		}
	}
	for _, bestOf := range []int{9, 1 << 40} {
		if _, err := beginIteration(t.Context(), p.c, beginInput{BestOf: bestOf}); err == nil {
			t.Errorf("best_of %d is accepted", bestOf)
		}
	}
}

// TestReportFitsAPullRequest: neither an agent nor its tasks can make a report that is too long for OPEN_PR.
func TestReportFitsAPullRequest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustBegin(beginInput{})
	long := strings.Repeat("é", protocol.MaxBody)
	tasks := []loop.Task{}
	for i := range loop.MaxTasks {
		tasks = append(tasks, loop.Task{Description: fmt.Sprint(i, long[:600]), Passes: true})
	}
	got := p.decide(decideInput{
		State: &loop.State{Status: loop.Done}, Green: true, Report: []byte(`{"tree":"t","statement":"s"}`), Tasks: tasks, Pull: &loop.Pull{Title: long, Body: long}, Divergence: long,
	}).Report
	if got == nil || len(got.Title) > protocol.MaxTitle || len(got.Body) > protocol.MaxBody || !utf8.ValidString(got.Title+got.Body) {
		t.Errorf("the report is %.100v", got)
	}
}

// TestAnswerWithoutTasks checks that an answer without tasks, used instead of state.json, leaves the list unchanged.
func TestAnswerWithoutTasks(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{
		`{"status":"CONTINUE"}`:              1,
		`{"status":"CONTINUE","tasks":null}`: 1,
		`{"status":"CONTINUE","tasks":[]}`:   0,
	} {
		p := newPlace(t)
		p.mustBegin(beginInput{})
		p.write(loop.TasksFile, oneTask)
		out, err := readAnswer(t.Context(), p.c, readInput{Answer: answer})
		if err != nil || len(out.Tasks) != want {
			t.Errorf("readAnswer(%s) = %+v, %v, want %d tasks", answer, out, err, want)
		}
	}
}

// TestLastObject checks which object of an answer is read. An answer of objects that do not end does not take quadratic time.
func TestLastObject(t *testing.T) {
	t.Parallel()
	const object = `{"status":"DONE"}`
	for name, test := range map[string]struct {
		text  string
		found bool
	}{
		"alone":            {object, true},
		"after words":      {"Here it is:\n" + object + "\n", true},
		"in a code block":  {"```json\n" + object + "\n```\n", true},
		"within a line":    {"it is " + object, false},
		"without a status": {`{"state":"DONE"}`, false},
		"not the last":     {object + "\n" + strings.Repeat("{\"a\":1}\n", 900), true},
		"does not end":     {object + "\n" + strings.Repeat("{\"a\":\n", 2<<20), false},
	} {
		if raw, found := decodeLast(test.text); found != test.found || found && string(raw) != object {
			t.Errorf("decodeLast of an object %s = %.100s, %v, want %v", name, raw, found, test.found)
		}
	}
}

// TestBadTries checks that the error names the invalid element.
func TestBadTries(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bad := []json.RawMessage{json.RawMessage(`null`), json.RawMessage(`{"ms":"long"}`)}
	for pointer, in := range map[string]decideInput{"/tries": {Tries: bad}, "/failed_tries": {FailedTries: bad}} {
		_, err := decideNext(t.Context(), p.c, in)
		if f := fault.As(err); f == nil || !strings.Contains(f.Message, ": "+pointer+"/1 ") {
			t.Errorf("decideNext = %v, want an error about %s/1", err, pointer)
		}
	}
}

// TestAllAgentsCount: the cost of agents that worked side by side is added up, also of those that failed; they share a limit.
func TestAllAgentsCount(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	begun := p.mustBegin(beginInput{BestOf: 4, Limits: loop.Limits{MaxCostUSD: 2}})
	if len(begun.Tries) != 4 || begun.AgentLimits["max_cost_usd"] != 0.5 {
		t.Errorf("%d agents with %v", len(begun.Tries), begun.AgentLimits)
	}
	raw := func(texts ...string) (list []json.RawMessage) {
		for _, s := range texts {
			list = append(list, json.RawMessage(s))
		}
		return list
	}
	got := p.decide(decideInput{
		State: &loop.State{Status: loop.Continue}, Tries: raw(`{"cost":{"usd":1},"ms":5}`, `null`, `{"cost":{"usd":2},"ms":7,"patch":"x"}`),
		FailedTries: raw(`{"message":"x","data":{"details":{"cost":{"usd":4},"duration_ms":9}}}`, `{"message":"y","data":null}`),
	})
	if got.Memory.CostUSD != 7 || got.Memory.DurationMS != 9 {
		t.Errorf("cost %v in %v ms, want 7 in 9", got.Memory.CostUSD, got.Memory.DurationMS)
	}
}
