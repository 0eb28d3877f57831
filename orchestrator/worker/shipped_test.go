package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/board"
)

// Each built-in worker has a fixture: a task on which it starts, one on which it stays silent, the outputs of its flow, and all that
// these change: files and events. UPDATE=1 writes the changes into the fixtures.
func TestShippedWorkers(t *testing.T) {
	config := board.DefaultConfig("LAT")
	all, err := Load(fstest.MapFS{}, config)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 8, 10, 30, 0, 0, time.UTC)
	for _, d := range all {
		t.Run(d.Worker.Name, func(t *testing.T) {
			if _, ok := manifests.Flow(d.Execution.Flow); !ok {
				t.Errorf("there is no flow %s", d.Execution.Flow)
			}
			file := filepath.Join("testdata", "shipped", d.Worker.Name+".txtar")
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			part := func(name string) []byte {
				for _, f := range archive.Files {
					if f.Name == name {
						return f.Data
					}
				}
				t.Fatalf("%s has no %s", file, name)
				return nil
			}
			task, due, why := foldFixture(t, d, part("fires.jsonl"), now)
			if !due {
				t.Errorf("the worker does not start: %s", why)
			}
			_, due, why = foldFixture(t, d, part("silent.jsonl"), now)
			if due {
				t.Error("the worker starts on the task on which it should stay silent")
			}
			var got strings.Builder
			fmt.Fprintf(&got, "trigger: %s\nsilent: %s\n", d.Trigger, why)
			out := ReadOutputs(part("outputs.json"))
			r := board.ProcessRecord{RunID: "run_1", Process: board.Process{Type: d.Worker.Name, StartedAt: "2026-01-08T10:00:00Z", Actor: d.Worker.Actor, Commit: "abc1234def56789"}}
			for _, f := range d.Files(task, r, out, now) {
				fmt.Fprintf(&got, "file %s of the role %s:\n%s", f.Path, f.Role, f.Text)
			}
			if d.Output.Apply {
				changes, err := config.ChangesFor(task, out.Proposal)
				if err != nil {
					t.Error(err)
				}
				for _, c := range changes {
					data, err := json.Marshal(c.Data)
					if err != nil {
						t.Error(err)
					}
					fmt.Fprintf(&got, "event %s %s\n", c.Type, data)
				}
			}
			if os.Getenv("UPDATE") != "" {
				archive.Files[len(archive.Files)-1].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(part("want")), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// foldFixture folds the events of a task, and reports whether a worker starts on it: by its own trigger, or if it is started by hand,
// by a policy.
func foldFixture(t *testing.T, d Definition, lines []byte, now time.Time) (task *board.Task, due bool, why string) {
	task = board.NewTask("task_1")
	var events []board.Event
	problems, err := board.ReadEvents(bytes.NewReader(lines), func(e board.Event) error {
		events = append(events, e)
		return task.Apply(e)
	})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if d.Trigger.ManualOnly {
		if due, _ := d.Due(task, events, now); due {
			t.Error("the worker starts by itself")
		}
		due, why = d.DueBy(board.WorkerPolicy{Default: d.Worker.Name}, task, events, now)
		return task, due, why
	}
	due, why = d.Due(task, events, now)
	return task, due, why
}

func TestTriggers(t *testing.T) {
	at := func(day, hour int) string {
		return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC).Format(time.RFC3339)
	}
	event := func(kind string, day, hour int, actor string) board.Event {
		e := board.Event{ID: kind, Type: kind, TaskID: "task_1", TS: at(day, hour), Actor: actor, Data: json.RawMessage(`{}`)}
		if strings.HasPrefix(kind, "process_") {
			e.Data = json.RawMessage(`{"process_type": "W", "commit_sha": "abc"}`)
		}
		return e
	}
	ran := func(day, hour int) []board.Event {
		return []board.Event{event(board.ProcessStarted, day, hour, "worker:W"), event(board.ProcessCompleted, day, hour+1, "worker:W")}
	}
	comment := func(day, hour int, actor string) board.Event { return event(board.CommentAdded, day, hour, actor) }
	daily, stale, reply := Trigger{Schedule: "0 9 * * *"}, Trigger{StaleHours: 48}, Trigger{OnEvent: board.CommentAdded, CooldownMinutes: 90}
	inWork := board.Task{ID: "task_1", Status: "in_progress", StatusChangedAt: at(5, 10)}
	for _, c := range []struct {
		name      string
		trigger   Trigger
		status    string
		events    []board.Event
		day, hour int
		want      string // why not, "" = due
	}{
		{"schedule, the same day", daily, "", nil, 5, 23, "its schedule is not due"},
		{"schedule, the next day", daily, "", nil, 6, 9, ""},
		{"schedule, missed for days", daily, "", nil, 20, 3, ""},
		{"schedule, has run", daily, "", ran(6, 9), 6, 23, "its schedule is not due"},
		{"schedule, again", daily, "", ran(6, 9), 7, 9, ""},
		{"schedule, done", daily, "done", nil, 20, 3, "the task is in done"},
		{"schedule of a status", Trigger{Schedule: "0 9 * * *", OnStatus: "review"}, "", nil, 20, 3, "the task is in in_progress"},
		{"stale, early", stale, "", nil, 7, 9, "the task is not stale"},
		{"stale", stale, "", nil, 7, 10, ""},
		{"stale, reported", stale, "", ran(7, 10), 9, 10, "the task is not stale"},
		{"stale, reported long ago", stale, "", ran(7, 10), 9, 11, ""},
		{"event, none", reply, "", ran(6, 9), 7, 9, "no event comment_added followed its last start"},
		{"event", reply, "", []board.Event{comment(6, 9, "human:ada")}, 6, 10, ""},
		{"event, its own", reply, "", []board.Event{comment(6, 9, "worker:W")}, 6, 10, "no event comment_added followed its last start"},
		{"event, answered", reply, "", append([]board.Event{comment(6, 8, "human:ada")}, ran(6, 9)...), 7, 10, "no event comment_added followed its last start"},
		{"event while it ran", reply, "", []board.Event{ran(6, 9)[0], comment(6, 9, "human:ada"), ran(6, 9)[1]}, 7, 10, ""},
		{"event, cooldown", reply, "", append(ran(6, 9), comment(6, 10, "human:ada")), 6, 11, "it waits for its cooldown"},
	} {
		task := inWork
		if c.status != "" {
			task.Status = c.status
		}
		d := Definition{Worker: Identity{Name: "W", Actor: "worker:W"}, Trigger: c.trigger}
		due, why := d.Due(&task, c.events, time.Date(2026, 1, c.day, c.hour, 0, 0, 0, time.UTC))
		if due != (c.want == "") || why != c.want {
			t.Errorf("%s: due %v, %q, want %q", c.name, due, why, c.want)
		}
	}
	busy := inWork
	busy.Active = []board.Process{{Type: "Heavy"}}
	if due, why := (Definition{Worker: Identity{Name: "Lite"}}).DueBy(board.WorkerPolicy{Default: "Lite", EscalateTo: "Heavy"}, &busy, nil, time.Now()); due || why != "another worker of the policy is running" {
		t.Errorf("beside another worker of the policy: %v, %q", due, why)
	}
}
