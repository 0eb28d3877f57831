package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/fault"
)

// The events and the snapshot of the seed workers-design, "Process Tracking".
func TestFoldOfTheSeed(t *testing.T) {
	const started = `{"type":"process_started","task_id":"task_01","actor":"agent:review-bot","id":"ev_01","ts":"2026-02-16T14:32:00Z","data":{"process_type":"CodeReviewLite","commit_sha":"abc1234","worktree_path":"/tmp/lattice-review-LAT-42-abc1234","timeout_minutes":10}}`
	const heavy = `{"type":"process_started","task_id":"task_01","actor":"agent:review-team","id":"ev_02","ts":"2026-02-16T14:33:00Z","data":{"process_type":"CodeReviewHeavy","commit_sha":"abc1234"}}`
	const completed = `{"type":"process_completed","task_id":"task_01","actor":"agent:review-bot","data":{"process_type":"CodeReviewLite","commit_sha":"abc1234","result":"success","artifact_id":"art_01","duration_seconds":142,"head_at_completion":"def5678"}}`
	const failed = `{"type":"process_failed","task_id":"task_01","actor":"agent:review-bot","data":{"process_type":"CodeReviewLite","commit_sha":"abc1234","error":"Agent process exited with code 1","duration_seconds":45}}`
	const other = `{"type":"process_failed","task_id":"task_01","actor":"agent:review-bot","data":{"process_type":"CodeReviewLite","commit_sha":"fff"}}`
	const second = `{"type":"process_started","task_id":"task_01","actor":"agent:b","event_id":"ev_03","timestamp":"2026-02-16T14:35:00Z","data":{"process_type":"CodeReviewLite","commit_sha":"abc1234"}}`
	const named = `{"type":"process_completed","task_id":"task_01","actor":"agent:b","data":{"process_type":"CodeReviewLite","commit_sha":"abc1234","started_event_id":"ev_03"}}`
	lite := `{"process_type":"CodeReviewLite","started_at":"2026-02-16T14:32:00Z","actor":"agent:review-bot","commit_sha":"abc1234","event_id":"ev_01"}`
	for _, tt := range []struct {
		name   string
		events []string
		want   string // active_processes
	}{
		{"started", []string{started}, "[" + lite + "]"},
		{"completed", []string{started, completed}, "[]"},
		{"failed", []string{started, failed}, "[]"},
		{"another commit", []string{started, other}, "[" + lite + "]"},
		{"ended twice", []string{started, completed, failed}, "[]"},
		{"another type", []string{started, heavy, completed}, `[{"process_type":"CodeReviewHeavy","started_at":"2026-02-16T14:33:00Z","actor":"agent:review-team","commit_sha":"abc1234","event_id":"ev_02"}]`},
		{"the oldest ends", []string{started, second, completed}, `[{"process_type":"CodeReviewLite","started_at":"2026-02-16T14:35:00Z","actor":"agent:b","commit_sha":"abc1234","event_id":"ev_03"}]`},
		{"the named one ends", []string{started, second, named}, "[" + lite + "]"},
	} {
		task := NewTask("task_01")
		problems, err := ReadEvents(strings.NewReader(strings.Join(tt.events, "\n")), task.Apply)
		if err != nil || len(problems) > 0 {
			t.Fatalf("%s: %v, %v", tt.name, problems, err)
		}
		got, err := json.Marshal(task.Active)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestDamagedLines(t *testing.T) {
	lines := []string{
		`{"type":"task_created","task_id":"task_01","data":{"title":"x","status":"backlog"},"ts":"2026-02-16T14:32:00Z"}`,
		`{"type":"task_created","task_id":"task_01","data":{"title":"y","status":"done"},"ts":"2026-02-16T14:32:00Z"}`,
		`{"type":"status_cha`,
		`[]`,
		`{"type":"status_changed","task_id":"task_02","data":{"to":"done"}}`,
		`{"type":"status_changed","task_id":"task_01","data":{"from":"review","to":"done"}}`,
		`{"type":"status_changed","task_id":"task_01","data":7}`,
		`{"type":"status_changed","task_id":"task_01","ts":"yesterday","data":{"to":"done"}}`,
		`{"type":"field_updated","task_id":"task_01","data":{"field":"status","to":"done"}}`,
		`{"type":"artifact_attached","task_id":"task_01","data":{"role":"review"}}`,
		`{"type":"process_started","task_id":"task_01","data":{}}`,
		`{"task_id":"task_01"}`, `{"type":"status_changed"}`, ``,
		`{"type":"field_updated","task_id":"task_01","data":{"field":"title","to":"` + strings.Repeat("x", MaxLine) + `"}}`,
		`{"type":"x_unknown","task_id":"task_01","id":"ev_9"}`,
		`{"type":"status_changed","task_id":"task_01","data":{"from":"backlog","to":"review"}}`,
	}
	task := NewTask("task_01")
	problems, err := ReadEvents(strings.NewReader(strings.Join(lines, "\n")), task.Apply)
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, p := range problems {
		at = append(at, p.Line)
	}
	if want := []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15}; !cmp.Equal(at, want) {
		t.Errorf("problems %v, want in the lines %v", problems, want)
	}
	if task.Title != "x" || task.Status != "review" || task.LastEventID != "ev_9" || len(task.Artifacts) > 0 {
		t.Errorf("the damaged lines changed the task: %+v", task)
	}
}

// TestEventsWithoutATime checks that events need no time: a task is created once, and a process ends.
func TestEventsWithoutATime(t *testing.T) {
	lines := []string{
		`{"type":"task_created","task_id":"task_01","data":{"title":"x","status":"backlog"}}`,
		`{"type":"task_created","task_id":"task_01","data":{"title":"y","status":"done"}}`,
		`{"type":"process_started","task_id":"task_01","id":"ev_1","data":{"process_type":"A","commit_sha":"c"}}`,
		`{"type":"process_completed","task_id":"task_01","data":{"process_type":"A","commit_sha":"c"}}`,
		`{"type":"process_started","task_id":"task_01","id":"ev_2","ts":"2026-02-16T14:32:00Z","data":{"process_type":"A","commit_sha":"c"}}`,
		`{"type":"process_failed","task_id":"task_01","data":{"process_type":"A","commit_sha":"c"}}`,
		`{"type":"process_started","task_id":"task_01","id":"ev_3","data":{"process_type":"A","commit_sha":"c"}}`,
	}
	task := NewTask("task_01")
	var events []Event
	problems, err := ReadEvents(strings.NewReader(strings.Join(lines, "\n")), func(e Event) error {
		events = append(events, e)
		return task.Apply(e)
	})
	if err != nil || len(problems) != 1 || problems[0].Line != 2 || task.Title != "x" || task.Status != "backlog" {
		t.Errorf("%v, %v; the task is %+v, want the second creation refused", problems, err, task)
	}
	var got []string
	for _, r := range Processes(events) {
		got = append(got, r.EventID+" "+r.Result+" "+r.EndedAt)
	}
	if diff := cmp.Diff([]string{"ev_1 success " + noTime, "ev_2 failed 2026-02-16T14:32:00Z", "ev_3  "}, got); diff != "" {
		t.Errorf("Processes (-want +got):\n%s", diff)
	}
}

func TestLastNumber(t *testing.T) {
	for _, test := range []struct {
		names string
		want  int
	}{
		{"", 0},
		{"LAT-2 LAT-10 LAT-9", 10},
		{"LAT-2 XYZ-10 LAT LAT- LAT-a LAT-3x", 2},
		{"LAT-2 LAT-9223372036854775807", 2},
		{"LAT-2 LAT-99999999999999999999", 2},
		{"LAT-2 LAT--9223372036854775808", 2},
	} {
		var tasks []*Task
		for _, name := range strings.Fields(test.names) {
			tasks = append(tasks, &Task{ShortID: name})
		}
		if got := lastNumber(tasks, "LAT"); got != test.want {
			t.Errorf("lastNumber(%s) = %d, want %d", test.names, got, test.want)
		}
	}
}

func TestCheckMove(t *testing.T) {
	c := DefaultConfig("LAT")
	c.Workflow.Transitions = map[string][]string{"backlog": {"in_progress"}}
	c.Workflow.CompletionPolicies["review"] = CompletionPolicy{RequireAssigned: true}
	reviewed := []Artifact{{ID: "a", Role: "review"}}
	for _, tt := range []struct {
		task Task
		to   string
		want string // code, "" = allowed
	}{
		{Task{Status: "backlog"}, "in_progress", ""},
		{Task{Status: "backlog"}, "done", "move_not_allowed"},
		{Task{Status: "backlog"}, "somewhere", "status_unknown"},
		{Task{Status: "backlog"}, Cancelled, ""},
		{Task{Status: "in_progress"}, "review", "move_needs_assignee"},
		{Task{Status: "in_progress", AssignedTo: "agent:a"}, "review", ""},
		{Task{Status: "review"}, "done", "move_needs_artifact"},
		{Task{Status: "review", Artifacts: []Artifact{{ID: "a", Role: "plan"}}}, "done", "move_needs_artifact"},
		{Task{Status: "review", Artifacts: reviewed}, "done", ""},
		{Task{Status: "review", ReviewCycles: 2}, "in_progress", ""},
		{Task{Status: "review", ReviewCycles: 3}, "in_progress", "review_cycles"},
		{Task{Status: "review", ReviewCycles: 3}, NeedsHuman, ""},
		{Task{Status: "review", ReviewCycles: 3, Artifacts: reviewed}, "done", ""},
	} {
		err := c.CheckMove(&tt.task, tt.to)
		var bad *fault.Error
		if code := ""; errors.As(err, &bad) {
			if code = bad.Code; code != tt.want || bad.Fault.Hint == "" {
				t.Errorf("%s -> %s: %v (%s), want %q and a hint", tt.task.Status, tt.to, err, code, tt.want)
			}
		} else if tt.want != "" {
			t.Errorf("%s -> %s: %v, want %s", tt.task.Status, tt.to, err, tt.want)
		}
	}
}

func TestChooseNext(t *testing.T) {
	c := DefaultConfig("LAT")
	tasks := []*Task{
		{ID: "1", Status: "backlog", Priority: "low", CreatedAt: "2026-01-01T00:00:00Z"},
		{ID: "2", Status: "backlog", CreatedAt: "2026-01-03T00:00:00Z"}, // medium
		{ID: "3", Status: "backlog", Priority: "medium", CreatedAt: "2026-01-02T23:00:00+01:00"},
		{ID: "4", Status: "backlog", Priority: "critical", AssignedTo: "agent:b"},
		{ID: "5", Status: "done", Priority: "critical"},
		{ID: "6", Status: "in_progress", AssignedTo: "agent:c", Priority: "low"},
	}
	for actor, want := range map[string]string{"agent:a": "3", "agent:b": "4", "agent:c": "6"} {
		if got := c.ChooseNext(tasks, actor, []string{"backlog"}); got == nil || got.ID != want {
			t.Errorf("%s: %+v, want %s", actor, got, want)
		}
	}
	if got := c.ChooseNext(tasks, "agent:a", []string{"review"}); got != nil {
		t.Errorf("nothing is in review: %+v", got)
	}
}

// TestUnknownPriority checks that a priority that another program wrote ranks as the default.
func TestUnknownPriority(t *testing.T) {
	t.Parallel()
	for priority, want := range map[string]string{"critical": "1", "high": "1", "medium": "2", "low": "2"} {
		tasks := []*Task{{ID: "1", Status: "backlog", Priority: priority}, {ID: "2", Status: "backlog", Priority: "someday"}}
		if priority == "medium" {
			tasks[0].CreatedAt = "2026-01-01T00:00:00Z"
		}
		if got := DefaultConfig("LAT").ChooseNext(tasks, "agent:a", []string{"backlog"}); got == nil || got.ID != want {
			t.Errorf("of %s and an unknown priority: %+v, want %s", priority, got, want)
		}
	}
}

func TestConfigIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"workflow":{"statuses":["a","b"],"transitions":{"a":["c"]}}}`: `"c" is used`,
		`{"workflow":{"statuses":["a"],"completion_policy":{}}}`:        "completion_policy",
		`{"workflow":{}}`: "statuses is empty",
		`{"workflow":{"statuses":["a"]},"hooks":{"transitions":{"* -> a":"make lint","* -> a":"true"}}}`:                                                   "/hooks/transitions/* -> a is given twice",
		`{"workflow":{"statuses":["a"]},"default_status":"b"}`:                                                                                             `"b" is used`,
		`{"workflow":{"statuses":["a"]},"hooks":{"transitions":{"a->b":"true"}}}`:                                                                          `"a->b" is not a move`,
		`{"workflow":{"statuses":["a"]},"worker_policies":{"b":{"default":"X"}}}`:                                                                          `"b" is used`,
		`{"workflow":{"statuses":["a"]},"worker_policies":{"a":{"default":""}}}`:                                                                           "default is missing",
		`{"workflow":{"statuses":["a"]},"worker_policies":{"a":{"default":"X","escalate_to":"Y"}}}`:                                                        "not both",
		`{"workflow":{"statuses":["a"]},"task_types":["bug"],"worker_policies":{"a":{"default":"X","escalate_to":"Y","escalate_when":{"type":["epic"]}}}}`: `type is "epic"`,
		`{"workflow":{"statuses":["a"]},"hooks":{"transitions":{"* -> a":["x","y"],"a -> *":"z"}}}`:                                                        "",
	} {
		_, err := parseConfig([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestConfigErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"workflow\": {},\n\"hook\": {}\n}":                        `line 3: unknown field "hook"`,
		"{\n\"workflow\": {},\n\"workers\": 1\n}":                      "line 3: cannot unmarshal number",
		"{\n\"workflow\": {},,\n\"workers\": []\n}":                    "line 2: invalid character",
		"{\n\"workflow\": {\n":                                         "line 3: unexpected EOF",
		"{\"workflow\": {\"statuses\": [\"a\"]}}\n\n{\"hooks\": {}}\n": "line 3: text after the end",
		"{\"workflow\": {\"statuses\": [\"a\"]}}}":                     "line 1: text after the end",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The policy of the seed workers-design.
func TestWorkerPolicy(t *testing.T) {
	c, err := parseConfig([]byte(`{"workflow":{"statuses":["review"]},"worker_policies":{"review":{"default":"CodeReviewLite","escalate_to":"CodeReviewHeavy","escalate_when":{"labels":["security","breaking-change"],"type":["epic"],"diff_lines_gt":500}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		task  Task
		lines int
		want  string
	}{
		{Task{Type: "bug", Labels: []string{"ui"}}, 500, "CodeReviewLite"},
		{Task{Type: "bug", Labels: []string{"ui", "security"}}, 1, "CodeReviewHeavy"},
		{Task{Type: "epic"}, 1, "CodeReviewHeavy"},
		{Task{Type: "bug"}, 501, "CodeReviewHeavy"},
	} {
		if got := c.WorkerPolicies["review"].Choose(&tt.task, tt.lines); got != tt.want {
			t.Errorf("%+v with %d lines: %s, want %s", tt.task, tt.lines, got, tt.want)
		}
	}
}

func newBoard(t *testing.T) *Board {
	t.Helper()
	dir := t.TempDir()
	if err := Init(dir, DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Writers that share a board each get a number of their own, and no task is claimed twice.
func TestWritersAtOnce(t *testing.T) {
	b := newBoard(t)
	var mu sync.Mutex
	short, claimed := map[string]bool{}, map[string]string{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			own, err := Open(b.Root) // its own lock, as another process has
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			actor := fmt.Sprintf("agent:%d", i)
			made, _, err := own.Create(t.Context(), actor, "", CreatedData{Title: "x", Status: "backlog"})
			if err != nil {
				t.Error(err)
				return
			}
			got, _, err := own.Claim(t.Context(), actor, []string{"backlog"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got == nil || short[made.ShortID] || claimed[got.ID] != "" {
				t.Errorf("%s: created %+v, claimed %+v, %v", actor, made, got, err)
				return
			}
			short[made.ShortID], claimed[got.ID] = true, actor
		})
	}
	all.Wait()
	if len(short) != 8 || !short["LAT-1"] || !short["LAT-8"] {
		t.Errorf("short ids %v, want LAT-1 to LAT-8", short)
	}
}

// A line that a killed writer cut off does not swallow the next event.
func TestCutLine(t *testing.T) {
	b := newBoard(t)
	task, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "backlog"})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(b.Root, eventsDir, task.ID+".jsonl")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"type":"status_changed","task_id":"`) //nolint:errcheck // the test fails below
	f.Close()
	var warned []string
	b.Warn = func(text string) { warned = append(warned, text) }
	if _, _, err := b.Update(t.Context(), task.ID, "human:a", func(*Task) ([]Change, error) {
		return []Change{{CommentAdded, Comment{Body: "still here"}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	warned = nil
	got, err := b.Resolve("lat-1")
	if err != nil || len(got.Comments) != 1 || len(warned) != 1 || !strings.Contains(warned[0], "line 2") {
		t.Errorf("%+v, %v, warnings %q", got, err, warned)
	}
}

// Links that lead out of the repository are not followed, neither for reading nor for writing.
func TestLinksOutside(t *testing.T) {
	b := newBoard(t)
	outside := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(outside, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.Root, eventsDir, "task_1.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Tasks(); err == nil {
		t.Error("a link out of the repository was read")
	}
	if _, _, err := b.Update(t.Context(), "task_1", "human:a", func(*Task) ([]Change, error) {
		return []Change{{CommentAdded, Comment{Body: "x"}}}, nil
	}); err == nil {
		t.Error("a link out of the repository was written to")
	}
	if text, _ := os.ReadFile(outside); string(text) != "mine\n" {
		t.Errorf("the file outside holds %q", text)
	}
}

func TestHooksOf(t *testing.T) {
	var h Hooks
	if err := json.Unmarshal([]byte(`{"post_event":"p","on":{"status_changed":"o","comment_added":"c"},"transitions":{"a -> b":["1","2"],"* -> b":"3","a -> *":"4","* -> *":"5","b -> a":"6"}}`), &h); err != nil {
		t.Fatal(err)
	}
	move := Event{Type: StatusChanged, Data: json.RawMessage(`{"from":"a","to":"b"}`)}
	if got := strings.Join(h.hooksOf(move), " "); got != "p o 1 2 3 4 5" {
		t.Errorf("hooks of a move: %s", got)
	}
	if got := strings.Join(h.hooksOf(Event{Type: CommentAdded}), " "); got != "p c" {
		t.Errorf("hooks of a comment: %s", got)
	}
}

// A hook that does not end, with a child that holds its output open, is killed when the command is.
func TestHookEndsWithItsCaller(t *testing.T) {
	b := newBoard(t)
	b.Config.Hooks.PostEvent = `cat >seen; sleep 1000 & echo started >child; sleep 1000`
	var warned string
	b.Warn = func(text string) { warned = text }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.RunHooks(ctx, []Event{{Type: CommentAdded, TaskID: "task_1"}}, os.Environ(), os.Stderr)
	}()
	for { // until the hook has begun
		if _, err := os.Stat(filepath.Join(b.Root, "child")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if seen, _ := os.ReadFile(filepath.Join(b.Root, "seen")); !strings.Contains(string(seen), `"task_1"`) || warned == "" {
		t.Errorf("the hook read %q, warning %q", seen, warned)
	}
}

func TestLockIsHeld(t *testing.T) {
	other := newBoard(t)
	b, err := Open(other.Root) // as another process does
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := other.locked(t.Context(), func() error {
		synctest.Test(t, func(t *testing.T) {
			_, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "backlog"})
			var bad *fault.Error
			if !errors.As(err, &bad) || bad.Code != "board_busy" {
				t.Errorf("Create = %v, want board_busy", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, _, err := b.Create(ctx, "human:a", "", CreatedData{}); !errors.Is(err, context.Canceled) {
				t.Errorf("Create = %v, want the end of its context", err)
			}
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestLargeEvent(t *testing.T) {
	b := newBoard(t)
	_, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Description: strings.Repeat("x", MaxLine), Status: "backlog"})
	var bad *fault.Error
	if !errors.As(err, &bad) || bad.Code != "event_too_large" {
		t.Errorf("Create = %v, want event_too_large", err)
	}
	if tasks, err := b.Tasks(); len(tasks) > 0 || err != nil {
		t.Errorf("left %v, %v", tasks, err)
	}
}

// TestResolve checks that an empty name finds no task on a board without short ids.
func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Init(dir, DefaultConfig("")); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	made, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{made.ID: "", made.ID[:20]: "", "": "task_not_found", "task_": "task_not_found", "LAT-1": "task_not_found"} {
		if found, err := b.Resolve(name); codeOf(err) != code || err == nil && found.ID != made.ID {
			t.Errorf("Resolve(%q) = %+v, %v, want %q", name, found, err, code)
		}
	}
}

// TestTrust checks that a digest is trusted when the file did not end with a newline, and that the one before it still is.
func TestTrust(t *testing.T) {
	t.Parallel()
	for before, lines := range map[string]string{"": "new\n", "old\n": "old\nnew\n", "old": "old\nnew\n", "new": "new"} {
		home := t.TempDir()
		file := filepath.Join(home, trustFile)
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Trust(home, "new"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != lines {
			t.Errorf("%q becomes %q, %v, want %q", before, text, err, lines)
		}
	}
}

// Output that fits exactly is not cut.
func TestBeginning(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "ab": "ab", "abcd": "abcd", "abcde": "abcd"} {
		var out strings.Builder
		b := &beginning{to: &out, left: 4}
		for _, c := range []byte(text) {
			if n, err := b.Write([]byte{c}); n != 1 || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		}
		if out.String() != want || b.cut != (text != want) {
			t.Errorf("%q: %q, cut is %t", text, out.String(), b.cut)
		}
	}
}
