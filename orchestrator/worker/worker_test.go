package worker

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/board"
)

// The two definitions of the seed workers-design, as they stand there.
const seedLite = `[worker]
name = "CodeReviewLite"
description = "Fast single-agent code review"
actor = "agent:review-bot"

[trigger]
on_status = "review"
missing_role = "review"          # Only fires if no review artifact exists
cooldown_minutes = 5             # Don't re-trigger within 5 min of last run

[execution]
engine = "claude"                # claude | codex | gemini | script
command = "claude -p"            # Base command (worker system adds prompt)
prompt_file = "prompts/workers/code-review-lite.md"
worktree = true                  # Create isolated worktree
timeout_minutes = 10

[output]
artifact_role = "review"
report_prefix = "CR"
report_dir = "notes"
`

const seedHeavy = `[worker]
name = "CodeReviewHeavy"
description = "Multi-agent team three code review"
actor = "agent:review-team"

[trigger]
# No automatic trigger — invoked manually or by policy
manual_only = true

[execution]
engine = "script"
command = "./workers/code-review-heavy.sh"
worktree = true
timeout_minutes = 30

[output]
artifact_role = "review"
report_prefix = "CR"
report_dir = "notes"
`

func TestDefinitionsOfTheSeed(t *testing.T) {
	all, err := Load(fstest.MapFS{Dir + "/code-review-lite.toml": {Data: []byte(seedLite)}, Dir + "/code-review-heavy.toml": {Data: []byte(seedHeavy)}}, board.DefaultConfig("LAT"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all {
		names = append(names, d.Worker.Name+" "+d.File)
	}
	if want := []string{"AutoTriage ", "CodeReviewHeavy .lattice/workers/code-review-heavy.toml", "CodeReviewLite .lattice/workers/code-review-lite.toml", "MergeQueue ", "PlanReviewHeavy ", "PlanReviewLite ", "StaleDetector ", "TestRunner "}; !cmp.Equal(names, want) {
		t.Errorf("workers %q, want %q", names, want)
	}
	want := Definition{
		Worker:    Identity{"CodeReviewLite", "Fast single-agent code review", "agent:review-bot"},
		Trigger:   Trigger{OnStatus: "review", MissingRole: "review", CooldownMinutes: 5},
		Execution: Execution{Flow: "code-review", Engine: "claude", Command: "claude -p", PromptFile: "prompts/workers/code-review-lite.md", Place: PlaceSprite, Worktree: true, TimeoutMinutes: 10},
		Output:    Output{ArtifactRole: "review", ReportPrefix: "CR", ReportDir: "notes"},
		File:      ".lattice/workers/code-review-lite.toml",
	}
	if got, err := Find(all, "codereviewlite"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := Find(all, "other"); err == nil || !strings.Contains(err.Error(), "no worker other") {
		t.Errorf("Find = %v", err) // worker_not_found
	}
}

func TestBadDefinitions(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(seedLite, old, new, 1) }
	for text, want := range map[string]string{
		"x":                               "expected",
		replace(`on_status`, `on_statsu`): "unknown member trigger.on_statsu",
		replace(`"claude"`, `"gpt"`):      `engine is "gpt"`,
		replace(`"claude -p"`, `"sh x"`):  "does not call the engine",
		replace(`= true`, `= false`):      "worktree must be true",
		replace(`= 10`, `= 0`):            "timeout_minutes is 0",
		replace(`worktree = true`, "worktree = true\nplace = \"host\""):                                   `place is "host"`,
		replace(`worktree = true`, "worktree = true\nplace = \"worktree\"\nflow = \"test-only\""):         "excludes flow",
		strings.Replace(seedHeavy, `command = "./workers/code-review-heavy.sh"`, `place = "worktree"`, 1): "command is missing",
		replace(`"notes"`, `"../x"`):                                                                                   "report_dir",
		replace(`"notes"`, `".git/hooks"`):                                                                             "report_dir",
		replace(`"CR"`, `"../CR"`):                                                                                     "report_prefix",
		replace(`"agent:review-bot"`, `"me"`):                                                                          "not an actor",
		replace(`"CodeReviewLite"`, `"a b"`):                                                                           "worker.name",
		replace(`"CodeReviewLite"`, `"a\u0000b"`):                                                                      "worker.name",
		replace(`"claude -p"`, `"claude -p\u0000x"`):                                                                   "null character in command",
		replace(`code-review-lite.md"`, `a\u0000~/.ssh"`):                                                              "null character in command, prompt_file",
		replace(`"prompts/`, `"/etc/`):                                                                                 "prompt_file",
		replace(`on_status = "review"`, `manual_only = true`):                                                          "manual_only excludes",
		replace(`on_status = "review"`, `schedule = "0 9"`):                                                            "has 2 fields",
		replace(`on_status = "review"`, `on_event = "shouted"`):                                                        `on_event is "shouted"`,
		replace(`on_status = "review"`, `on_status = "reviewing"`):                                                     `on_status is "reviewing", not one of backlog`,
		replace(`on_status = "review"`, `stale_hours = -1`):                                                            "stale_hours is -1",
		replace(`on_status = "review"`, `stale_hours = 2562048`):                                                       "stale_hours is 2562048",
		replace(`cooldown_minutes = 5`, `cooldown_minutes = 153722868`):                                                "cooldown_minutes is 153722868",
		strings.Replace(seedHeavy, `"./workers/code-review-heavy.sh"`, `""`, 1):                                        "command is missing",
		strings.Replace(seedHeavy, `manual_only = true`, ``, 1):                                                        "on_status is missing",
		strings.Replace(seedHeavy, `engine = "script"`, ``, 1):                                                         "does not call the engine",
		replace("engine = \"claude\"                # claude | codex | gemini | script\ncommand = \"claude -p\"", "#"): "engine is missing",
		seedLite + strings.Repeat("#", maxDefinition):                                                                  "more than",
	} {
		_, err := Load(fstest.MapFS{Dir + "/a.toml": {Data: []byte(text)}}, board.DefaultConfig("LAT"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), Dir+"/a.toml") {
			t.Errorf("%q\n: %v, want %q and the file", text, err, want) // worker_invalid
		}
	}
	for _, c := range []board.Config{{Workers: []string{"AutoTrage"}}, {WorkerPolicies: map[string]board.WorkerPolicy{"review": {Default: "TestRunner", EscalateTo: "AutoTrage"}}}} {
		if _, err := Load(fstest.MapFS{}, c); err == nil || !strings.Contains(err.Error(), "names the worker AutoTrage") {
			t.Errorf("Load = %v", err)
		}
	}
	for text, line := range map[string]int{
		"[worker]\nname =":                                       1 + 1,
		replace(`on_status`, `on_statsu`):                        7,
		replace(`= 10`, `= 0`):                                   16,
		replace(`= 10`, `= "10"`):                                16,
		replace(`worktree = true`, ``):                           11, // it is missing in the table of that line
		replace(`"review"`, `["review"]`):                        7,
		replace(`cooldown_minutes = 5`, `cooldown_minutes = -5`): 9,
	} {
		want := fmt.Sprintf("read %s/a.toml: line %d", Dir, line)
		if _, err := Load(fstest.MapFS{Dir + "/a.toml": {Data: []byte(text)}}, board.DefaultConfig("LAT")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q\n: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(fstest.MapFS{Dir + "/a.toml": {Data: []byte(seedLite)}, Dir + "/b.toml": {Data: []byte(seedLite)}}, board.DefaultConfig("LAT")); err == nil || !strings.Contains(err.Error(), "is in .lattice/workers/a.toml as well") {
		t.Errorf("two definitions of a name: %v", err)
	}
}

func TestDue(t *testing.T) {
	d, err := parseDefinition("x", seedLite, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := d
	again.Trigger.Retrigger = true
	repeated := d
	repeated.Trigger.MissingRole = ""
	heavy, err := parseDefinition("x", seedHeavy, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(minute int) string { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC).Format(time.RFC3339) }
	event := func(kind string, minute int) board.Event {
		data, err := json.Marshal(board.ProcessData{Type: "CodeReviewLite", Commit: "abc"})
		if err != nil {
			t.Fatal(err)
		}
		return board.Event{ID: kind, Type: kind, TaskID: "task_1", TS: at(minute), Data: data}
	}
	inReview := board.Task{ID: "task_1", Status: "review", StatusChangedAt: at(0)}
	with := func(change func(*board.Task)) board.Task {
		task := inReview
		change(&task)
		return task
	}
	failed := []board.Event{event(board.ProcessStarted, 1), event(board.ProcessFailed, 2)}
	done := []board.Event{event(board.ProcessStarted, 1), event(board.ProcessCompleted, 2)}
	for _, tt := range []struct {
		name   string
		d      Definition
		task   board.Task
		events []board.Event
		minute int
		want   string // why not, "" = due
	}{
		{"first", d, inReview, nil, 1, ""},
		{"manual", heavy, inReview, nil, 1, "it is started by hand"},
		{"elsewhere", d, with(func(t *board.Task) { t.Status = "done" }), nil, 1, "the task is in done"},
		{"reviewed", d, with(func(t *board.Task) { t.Artifacts = []board.Artifact{{ID: "a", Role: "review"}} }), nil, 1, "the task has an artifact of the role review"},
		{"running", d, with(func(t *board.Task) { t.Active = []board.Process{{Type: "CodeReviewLite"}} }), nil, 1, "it is running"},
		{"another runs", d, with(func(t *board.Task) { t.Active = []board.Process{{Type: "TestRunner"}} }), nil, 1, ""},
		{"failed", d, inReview, failed, 59, "it failed; retrigger is not set"},
		{"failed before it came back", d, with(func(t *board.Task) { t.StatusChangedAt = at(20) }), failed, 30, ""},
		{"failed, again", again, inReview, failed, 7, ""},
		{"failed, again, early", again, inReview, failed, 6, "it waits for its cooldown"},
		{"completed, and the artifact is gone", d, inReview, done, 6, "it waits for its cooldown"},
		{"no role, completed", repeated, inReview, done, 59, "it has run since the task came here"},
		{"no role, came back", repeated, with(func(t *board.Task) { t.StatusChangedAt = at(20) }), done, 30, ""},
	} {
		due, why := tt.d.Due(&tt.task, tt.events, time.Date(2026, 1, 1, 12, tt.minute, 0, 0, time.UTC))
		if reflect.DeepEqual(tt.d, heavy) {
			if due, _ := tt.d.DueBy(board.WorkerPolicy{Default: "CodeReviewLite", EscalateTo: tt.d.Worker.Name}, &tt.task, tt.events, time.Time{}); !due {
				t.Errorf("%s: a policy does not start it", tt.name)
			}
		}
		if due != (tt.want == "") || why != tt.want {
			t.Errorf("%s: due %v, %q, want %q", tt.name, due, why, tt.want)
		}
	}
}

// TestTrustDigest changes a worker that a person trusts. A change of what runs, or of what that can change, must be trusted again.
func TestTrustDigest(t *testing.T) {
	t.Parallel()
	trusted := Definition{
		Worker:    Identity{Name: "A"},
		Execution: Execution{Place: PlaceWorktree, Engine: "script", Command: "claude -p", PromptFile: "a.md", Writable: []string{"~/.cache/a"}, Worktree: true, TimeoutMinutes: 5},
	}
	for name, c := range map[string]struct {
		change func(d *Definition)
		again  bool
	}{
		"nothing":      {func(*Definition) {}, false},
		"the engine":   {func(d *Definition) { d.Execution.Engine = "claude" }, true},
		"the command":  {func(d *Definition) { d.Execution.Command = "claude -p --yes" }, true},
		"the prompt":   {func(d *Definition) { d.Execution.PromptFile = "b.md" }, true},
		"a path":       {func(d *Definition) { d.Execution.Writable = []string{"~/.cache/a", "."} }, true},
		"the name":     {func(d *Definition) { d.Worker.Name = "B" }, true},
		"the trigger":  {func(d *Definition) { d.Trigger.OnStatus = "review" }, false},
		"the timeout":  {func(d *Definition) { d.Execution.TimeoutMinutes = 6 }, false},
		"the report":   {func(d *Definition) { d.Output.ReportDir = "reports" }, false},
		"a sprite":     {func(d *Definition) { d.Execution.Place = PlaceSprite }, true},
		"another case": {func(d *Definition) { d.Worker.Name = "a" }, true},
	} {
		changed := trusted
		c.change(&changed)
		if again := changed.TrustDigest() != trusted.TrustDigest(); again != c.again {
			t.Errorf("after a change of %s the worker must be trusted again: %v, want %v", name, again, c.again)
		}
	}
}

// TestLate checks that a process without a timeout, or with one that no definition can have, is not late at once.
func TestLate(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 2, 16, 14, 30, 0, 0, time.UTC)
	for _, test := range []struct {
		name    string
		minutes int
		at      string
		after   time.Duration
		want    bool
	}{
		{"before the timeout", 10, "2026-02-16T14:30:00Z", 10 * time.Minute, false},
		{"after it", 10, "2026-02-16T14:30:00Z", 10*time.Minute + time.Second, true},
		{"in another zone", 10, "2026-02-16T15:30:00+01:00", 9 * time.Minute, false},
		{"without a timeout", 0, "2026-02-16T14:30:00Z", 24 * time.Hour, false},
		{"without a timeout, for long", 0, "2026-02-16T14:30:00Z", 25 * time.Hour, true},
		{"with a negative timeout", -5, "2026-02-16T14:30:00Z", time.Hour, false},
		{"with a timeout that overflows", math.MaxInt / 1000, "2026-02-16T14:30:00Z", time.Hour, false},
		{"with a timeout of years", 10_000_000, "2026-02-16T14:30:00Z", 25 * time.Hour, true},
		{"without a time", 10, "", 0, true},
	} {
		r := board.ProcessRecord{Process: board.Process{StartedAt: test.at}, TimeoutMinutes: test.minutes}
		if got := Late(r, started.Add(test.after)); got != test.want {
			t.Errorf("Late of a process %s = %v, want %v", test.name, got, test.want)
		}
	}
}
