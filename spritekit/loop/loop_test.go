package loop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFingerprintPairs reads the pairs of the document.
func TestFingerprintPairs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/loop.md")
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		kind := strings.TrimSpace(cells[1])
		if kind != "equal" && kind != "different" {
			continue
		}
		pairs++
		var both [2]string
		for i := range both {
			var p Progress
			if err := json.Unmarshal([]byte(strings.Trim(cells[i+2], " `")), &p); err != nil {
				t.Fatalf("%s: %v", cells[i+2], err)
			}
			both[i] = Fingerprint(p)
		}
		if equal := both[0] == both[1]; equal != (kind == "equal") {
			t.Errorf("Fingerprint of%sand%sequal: %v, want %s", cells[2], cells[3], equal, kind)
		}
	}
	if pairs != 30 {
		t.Errorf("the document has %d pairs, want 30", pairs)
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // text → error, "" if there is none
		`{"status":"CONTINUE","summary":"x","files_modified":["a"]}`: "",
		`{"status":"DONE"}`:                          "",
		`{"status":"BLOCKED","error":"x"}`:           "",
		`{"status":"NEEDS_INPUT","question":"why?"}`: "",
		`{"status":"NEEDS_INPUT"}`:                   "without a question",
		`{"status":"done"}`:                          "unknown status",
		`{"status":"FINE"}`:                          "unknown status",
		`{"summary":"x"}`:                            "no status",
		`{"status":"DONE"`:                           "not valid",
		`{"status":"DONE"}{"status":"DONE"}`:         "not valid",
		`[]`:                                         "not valid",
		``:                                           "not valid",
		`null`:                                       "no status",
		`{"status":"DONE","summary":"` + strings.Repeat("x", MaxStateBytes) + `"}`: "more than",
	}
	for text, want := range tests {
		_, err := ParseState([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ParseState(%.60s) = %v, want %q", text, err, want)
		}
	}
}

func TestParseTasks(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`[]`:                     "",
		`[{"description":"a"}]`:  "",
		`[{"description":"  "}]`: "no description",
		`[{"passes":true}]`:      "no description",
		`{"description":"a"}`:    "not valid",
		`[{"description":"a"},`:  "not valid",
		`[` + strings.TrimSuffix(strings.Repeat(`{"description":"a"},`, MaxTasks+1), ",") + `]`: "at most",
		`[` + strings.Repeat(" ", MaxTasksBytes) + `]`:                                          "more than",
	}
	for text, want := range tests {
		_, err := ParseTasks([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ParseTasks(%.60s) = %v, want %q", text, err, want)
		}
	}
	double := []Task{{Description: "a", Passes: true}, {Description: " a "}}
	if got := Passing(double); len(got) != 0 {
		t.Errorf("Passing(%v) = %q, want none", double, got)
	}
}

// tasks makes a list: names that begin with + pass.
func tasks(names ...string) []Task {
	list := []Task{}
	for _, n := range names {
		name, passes := strings.CutPrefix(n, "+")
		list = append(list, Task{Description: name, Passes: passes})
	}
	return list
}

// TestDecide has a row for each row of the table and for each reason why DONE does not count.
func TestDecide(t *testing.T) {
	t.Parallel()
	says := func(s Status, list []Task) Observation {
		return Observation{State: State{Status: s, Summary: "sum", Question: "why?", Error: "no disk"}, Tasks: list}
	}
	green := func(o Observation) Observation {
		o.Green, o.Commit, o.Statement, o.State.Error = true, "c", "s", ""
		return o
	}
	tree := func(o Observation, name string) Observation { o.Tree, o.State.Error = name, ""; return o }
	red := func(o Observation, failure string) Observation { o.Failure = failure; return o }
	resumed := func(o Observation) Observation { o.Resumed = true; return o }
	a, both := tasks("a"), tasks("+a", "+b")
	tests := map[string]struct {
		seen   []Observation
		limits Limits
		want   Decision
		reason string
	}{
		"done":                          {seen: []Observation{green(says(Done, both))}, want: DecideDone},
		"done, not green":               {seen: []Observation{says(Done, both)}, want: DecideRefuse, reason: "not green"},
		"done, green without statement": {seen: []Observation{{State: State{Status: Done}, Tasks: both, Green: true}}, want: DecideRefuse, reason: "not green"},
		"done, no tasks":                {seen: []Observation{green(says(Done, nil))}, want: DecideRefuse, reason: "list of tasks is empty"},
		"done, one fails":               {seen: []Observation{green(says(Done, tasks("+a", "b")))}, want: DecideRefuse, reason: "1 of 2"},
		"done, one was dropped":         {seen: []Observation{says(Continue, tasks("a", "b")), green(says(Done, tasks("+a")))}, want: DecideRefuse, reason: `"b" is missing`},
		"done, one was renamed":         {seen: []Observation{says(Continue, tasks("a", "b")), green(says(Done, tasks("+a", "+easier")))}, want: DecideRefuse, reason: `"b" is missing`},
		"continue, all pass and green":  {seen: []Observation{green(says(Continue, both))}, want: DecideContinue},
		"blocked":                       {seen: []Observation{says(Blocked, a)}, want: DecideBlocked, reason: "no disk"},
		"asks":                          {seen: []Observation{says(NeedsInput, a)}, want: DecideAsk, reason: "why?"},
		"crash":                         {seen: []Observation{{Crash: "exit 3"}}, want: DecideCrashed, reason: "exit 3"},
		"crash beats an old DONE":       {seen: []Observation{{Crash: "exit 3", State: State{Status: Done}, Tasks: both, Green: true, Statement: "s"}}, want: DecideCrashed},
		"last iteration":                {seen: []Observation{says(Continue, a)}, limits: Limits{MaxIterations: 1}, want: DecideMaxIterations, reason: "iteration 1 of 1"},
		"done in the last iteration":    {seen: []Observation{green(says(Done, both))}, limits: Limits{MaxIterations: 1}, want: DecideDone},
		"cost":                          {seen: []Observation{{State: State{Status: Continue}, CostUSD: 1}, {State: State{Status: Continue}, CostUSD: 1}}, limits: Limits{MaxCostUSD: 2}, want: DecideMaxCost, reason: "2.00 of 2.00"},
		"ended at the cost":             {seen: []Observation{{Crash: "max_cost_usd", CostUSD: 2}}, limits: Limits{MaxCostUSD: 2}, want: DecideMaxCost},
		"cost below the limit":          {seen: []Observation{{State: State{Status: Continue}, CostUSD: 1}}, limits: Limits{MaxCostUSD: 2}, want: DecideContinue},
		"duration":                      {seen: []Observation{{State: State{Status: Continue}, DurationMS: 5000}}, limits: Limits{MaxDurationS: 5}, want: DecideMaxDuration, reason: "5 of 5 seconds"},
		"same files":                    {seen: repeat(tree(says(Continue, a), "t"), 3), want: DecideStuck, reason: "same files"},
		"same files twice":              {seen: repeat(tree(says(Continue, a), "t"), 2), want: DecideContinue},
		"DONE without an end":           {seen: repeat(tree(says(Done, a), "t"), 3), want: DecideStuck, reason: "same files"},
		"no task newly passes": {
			seen: []Observation{tree(says(Continue, a), "1"), tree(says(Continue, a), "2"), tree(says(Continue, a), "3"), tree(says(Continue, a), "4")},
			want: DecideStuck, reason: "no task newly passes in 3",
		},
		"the list counts once": {
			seen: []Observation{tree(says(Continue, a), "1"), tree(says(Continue, a), "2"), tree(says(Continue, a), "3")}, want: DecideContinue,
		},
		"a task passes": {
			seen: []Observation{tree(says(Continue, a), "1"), tree(says(Continue, a), "2"), tree(says(Continue, tasks("+a")), "3"), tree(says(Continue, a), "4"), tree(says(Continue, a), "5")},
			want: DecideContinue,
		},
		"a task passes by turns": {
			seen: []Observation{
				tree(says(Continue, tasks("+a", "b")), "1"), tree(says(Continue, a), "2"), tree(says(Continue, tasks("+a", "b")), "3"),
				tree(says(Continue, a), "4"),
			},
			want: DecideStuck, reason: "no task newly passes",
		},
		"a person had it go on":  {seen: append(repeat(tree(says(Continue, a), "t"), 2), resumed(tree(says(Continue, a), "t"))), want: DecideContinue},
		"stuck after the answer": {seen: append(repeat(tree(says(Continue, a), "t"), 3), append([]Observation{resumed(tree(says(Continue, a), "t"))}, repeat(tree(says(Continue, a), "t"), 2)...)...), want: DecideStuck},
		"stuck later":            {seen: repeat(tree(says(Continue, a), "t"), 3), limits: Limits{StuckAfter: 4}, want: DecideContinue},
		"same error": {
			seen: []Observation{
				red(tree(says(Continue, tasks("+a")), "1"), "x.go:1: no"), red(tree(says(Continue, tasks("+b")), "2"), "x.go:2: no"),
				red(tree(says(Continue, tasks("+c")), "3"), "x.go:3: no"), red(tree(says(Continue, tasks("+d")), "4"), "x.go:4: no"),
				red(tree(says(Continue, tasks("+e")), "5"), "x.go:5: no"),
			},
			want: DecideRepeated, reason: "5 iterations ended with the same error: x.go:LINE: no",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, o := range test.seen {
				m = Decide(m, o, test.limits)
			}
			if got := m.Last(); got.Decision != test.want || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("Decide = %s (%s), want %s (%s)", got.Decision, got.Reason, test.want, test.reason)
			}
			if m.Iterations != len(test.seen) || m.Last().Iteration != len(test.seen) {
				t.Errorf("Decide counts %d and %d iterations, want %d", m.Iterations, m.Last().Iteration, len(test.seen))
			}
		})
	}
}

func repeat(o Observation, n int) []Observation { return slices.Repeat([]Observation{o}, n) }

// TestDecideNeverLies decides about random iterations: done needs a statement and all tasks, a loop never goes on beyond a limit,
// the numbers have no gap, and the memory stays small.
func TestDecideNeverLies(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for range 100 {
		var m Memory
		limits := Limits{MaxIterations: 1 + random.IntN(40), MaxCostUSD: float64(random.IntN(30))}
		for i := 1; ; i++ {
			o := Observation{
				State: State{Status: Status(pick("DONE", "CONTINUE", "CONTINUE", "BLOCKED", "NEEDS_INPUT", ""))}, Tree: pick("1", "2", "3", "4", "5"),
				Green: random.IntN(2) == 0, Statement: pick("", "s"), Failure: pick("", "x", "y"), CostUSD: 1, Resumed: random.IntN(4) == 0,
			}
			for _, name := range []string{"a", "b", "c"} {
				if random.IntN(3) > 0 {
					o.Tasks = append(o.Tasks, Task{Description: name, Passes: random.IntN(2) == 0})
				}
			}
			if o.State.Status == "" {
				o.Crash = "crashed"
			}
			known := slices.Clone(m.Known)
			m = Decide(m, o, limits)
			e := m.Last()
			if e.Iteration != i || m.Iterations != i || len(m.Recent) > MostRecent {
				t.Fatalf("iteration %d is number %d of %d, with %d remembered", i, e.Iteration, m.Iterations, len(m.Recent))
			}
			if proven := o.Crash == "" && o.State.Status == Done && o.Green && o.Statement != "" && len(o.Tasks) > 0 && Incomplete(o.Tasks) == 0 &&
				len(removeAll(known, Names(o.Tasks))) == 0; proven != (e.Decision == DecideDone) {
				t.Fatalf("%+v is %s after %v", o, e.Decision, known)
			}
			if !e.Decision.Stops() && (i >= limits.MaxIterations || limits.MaxCostUSD > 0 && m.CostUSD >= limits.MaxCostUSD) {
				t.Fatalf("iteration %d goes on (%s) beyond %+v", i, e.Decision, limits)
			}
			if e.Decision == DecideDone || i > 60 {
				break
			}
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	m := Memory{Iterations: 3, CostUSD: 1.5, DurationMS: 9000, Recent: []Entry{{Summary: "all\ndone", Commit: "c1", Statement: "s1"}}}
	got := Report(m, tasks("+say  four"), &Pull{Title: "Say\n\x1bfour", Body: "In words.\n"}, "Not in five.\n")
	for _, want := range []string{
		"In words.\n\n## Tasks\n\n- [x] say four\n", "Commit c1 is green. The statement is s1.\n", "Iterations: 3. Cost: 1.50 US dollars. Work: 9 seconds.",
		"## Differences from the spec\n\nNot in five.",
	} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("Report has no %q:\n%s", want, got.Body)
		}
	}
	if got.Title != "Say four" {
		t.Errorf("title %q, want Say four", got.Title)
	}
	if got := Report(m, nil, nil, ""); got.Title != "all" || !strings.HasPrefix(got.Body, "all\ndone\n\n## Tasks") {
		t.Errorf("Report without the agent's words = %+v", got)
	}
	if got := Report(Memory{}, nil, nil, ""); got.Title != "Finish the tasks" {
		t.Errorf("title %q of nothing", got.Title)
	}
}

func TestLimitsCheck(t *testing.T) {
	t.Parallel()
	tests := map[Limits]bool{
		{}: true, {MaxIterations: 500, StuckAfter: 20, RepeatAfter: 20}: true, {MaxIterations: 501}: false, {MaxIterations: -1}: false,
		{StuckAfter: 21}: false, {RepeatAfter: 21}: false, {MaxCostUSD: -1}: false, {MaxDurationS: -1}: false,
	}
	for l, ok := range tests {
		if err := l.Check(); (err == nil) != ok {
			t.Errorf("Check of %+v = %v", l, err)
		}
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	in := Injection{
		Spec: "Say four.\n", Instructions: "Be brief.", Dir: "/w/loop", Iteration: 7, MaxIterations: 50, Tasks: tasks("+a", "b"),
		Last: &Entry{Summary: long, Decision: DecideAsk, Reason: "why?"}, Failure: "a.go:1: no", Answer: "because", SpecDiff: true, Feedback: true,
	}
	got := Prompt(in)
	for _, want := range []string{
		"Be brief.\n\nSay four.\n\n", "/w/loop/state.json", "Iteration 7 of max 50.\n", "Incomplete tasks: 1 of 2.\n- [x] a\n- [ ] b\n",
		fmt.Sprintf("Previous summary: %s…\n", strings.Repeat("é", 199)), "Last verification: red\na.go:1: no\n",
		"You asked: why?\nA person says: because\n", "/w/loop/rfc-diff.md", "/w/loop/feedback.md",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Prompt has no %q:\n%s", want, got)
		}
	}
	in.Last = &Entry{Decision: DecideRefuse, Reason: "the list of tasks is empty", Green: true}
	in.Answer = ""
	if got := Prompt(in); !strings.Contains(got, "Last verification: green\nYou said DONE, which does not count: the list of tasks is empty.\n") || strings.Contains(got, "A person says") {
		t.Errorf("Prompt after a refusal:\n%s", got)
	}
	in.Last = &Entry{Decision: DecideStuck, Reason: "no progress"}
	in.Answer = "try harder"
	if got := Prompt(in); !strings.Contains(got, "The loop had stopped (stuck): no progress\nA person says: try harder\n") {
		t.Errorf("Prompt after a stop:\n%s", got)
	}
}
