package intents

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/schedule"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// schedulers make Schedulers of one store, and collect the keys of the intents that they create.
type schedulers struct {
	t      *testing.T
	store  *store.Store
	mu     sync.Mutex
	keys   []string
	refuse error
}

func newSchedulers(t *testing.T) *schedulers {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &schedulers{t: t, store: s}
}

func (f *schedulers) create(_ context.Context, r api.IntentRequest) (intent.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return intent.State{}, f.refuse
	}
	if !slices.Contains(f.keys, r.Key) { // as the pipeline: idempotent by key
		f.keys = append(f.keys, r.Key)
	}
	return intent.State{ID: intent.ID(r.Key)}, nil
}

// at returns a new Scheduler, as after a restart, whose clock stands at a time of a day.
func (f *schedulers) at(clock, cron string, cooldown time.Duration) *Scheduler {
	f.t.Helper()
	now, err := time.Parse(time.RFC3339, "2026-01-"+clock+":00Z")
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := schedule.Parse(cron)
	if err != nil {
		f.t.Fatal(err)
	}
	return &Scheduler{All: map[string]Schedule{"s": {Cron: c, Text: cron, Zone: time.UTC, Cooldown: cooldown, Request: api.IntentRequest{Kind: "health_detect"}}},
		Facts: &govern.Ledger{Store: f.store}, Create: f.create, Now: func() time.Time { return now }}
}

func (f *schedulers) tick(clock, cron string, want ...string) {
	f.t.Helper()
	if _, err := f.at(clock, cron, 0).Tick(f.t.Context(), "s"); err != nil {
		f.t.Fatal(err)
	}
	f.want(clock, want...)
}

func (f *schedulers) want(clock string, want ...string) {
	f.t.Helper()
	for i := range want {
		want[i] = "schedule/s/2026-01-" + want[i] + ":00Z"
	}
	if !slices.Equal(f.keys, want) {
		f.t.Errorf("at %s: the intents are %q, want %q", clock, f.keys, want)
	}
}

func TestTick(t *testing.T) {
	f := newSchedulers(t)
	f.tick("01T12:00", "0 3 * * *")                         // a new schedule begins now
	f.tick("02T02:59", "0 3 * * *")                         // not due
	f.tick("02T03:00", "0 3 * * *", "02T03:00")             // due
	f.tick("02T03:01", "0 3 * * *", "02T03:00")             // once
	f.tick("09T05:00", "0 3 * * *", "02T03:00", "09T03:00") // one for a week
	f.tick("10T05:00", "0 4 * * *", "02T03:00", "09T03:00") // other times begin now
	f.tick("11T04:00", "0 4 * * *", "02T03:00", "09T03:00", "11T04:00")

	views, err := f.at("11T05:00", "0 4 * * *", 0).Schedules(t.Context())
	if err != nil || len(views) != 1 || !views[0].Known || views[0].LastIntent != intent.ID("schedule/s/2026-01-11T04:00:00Z") || views[0].Next.Format(time.RFC3339) != "2026-01-12T04:00:00Z" {
		t.Errorf("Schedules = %+v, %v", views, err)
	}
}

// A push creates the intents of the schedules that follow its repository, once for each commit; without cron nothing else does.
func TestRunPushed(t *testing.T) {
	f := newSchedulers(t)
	s := f.at("01T12:00", "0 * * * *", 0)
	s.All["a"] = Schedule{OnPush: true, Zone: time.UTC, Request: api.IntentRequest{Kind: "doc_detect", Repo: "site"}}
	s.All["b"] = Schedule{OnPush: true, Zone: time.UTC, Request: api.IntentRequest{Kind: "doc_detect", Repo: "other"}}
	push := func(commit string) {
		t.Helper()
		if _, err := s.RunPushed(t.Context(), commit, func(repo string) (bool, error) { return repo == "site", nil }); err != nil {
			t.Fatal(err)
		}
	}
	push("aa")
	push("aa")
	push("bb")
	if created, err := s.Tick(t.Context(), "a"); created != "" || err != nil {
		t.Errorf("Tick = %q, %v", created, err)
	}
	if want := []string{"schedule/a/push/aa", "schedule/a/push/bb"}; !slices.Equal(f.keys, want) {
		t.Errorf("the intents are %q, want %q", f.keys, want)
	}
	views, err := s.Schedules(t.Context())
	if err != nil || len(views) != 3 || views[0].Next != nil || !views[0].OnPush {
		t.Errorf("Schedules = %+v, %v", views, err)
	}
}

// Two leaders and a crash between the intent and its entry create one intent for each due time.
func TestTickTwice(t *testing.T) {
	f := newSchedulers(t)
	f.tick("01T12:00", "0 * * * *")
	var group sync.WaitGroup
	for range 8 {
		s := f.at("01T13:00", "0 * * * *", 0)
		group.Go(func() {
			if _, err := s.Tick(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	f.want("01T13:00", "01T13:00")
	entries := 0
	if err := f.store.Audit(subjectOf("s"), 0, func(audit.Entry) error { entries++; return nil }); err != nil || entries != 2 {
		t.Errorf("%d entries, %v, want 2", entries, err)
	}
	// The process ended after the intent: the next one creates it again under the same key.
	f.keys = append(f.keys, "schedule/s/2026-01-01T14:00:00Z")
	f.tick("01T14:10", "0 * * * *", "01T13:00", "01T14:00")
}

func TestCooldownAndRefusal(t *testing.T) {
	f := newSchedulers(t)
	tick := func(clock string) error {
		_, err := f.at(clock, "0 * * * *", 90*time.Minute).Tick(t.Context(), "s")
		return err
	}
	for _, clock := range []string{"01T12:30", "01T13:00", "01T14:00", "01T15:00"} {
		if err := tick(clock); err != nil {
			t.Fatal(err)
		}
	}
	f.want("01T15:00", "01T13:00", "01T15:00")
	f.refuse = fault.BadInput("no_repository", "it needs a repository")
	if err := tick("01T17:00"); err == nil {
		t.Error("a refusal is not reported")
	}
	if views, err := f.at("01T17:01", "0 * * * *", 0).Schedules(t.Context()); err != nil || views[0].Reason != "it needs a repository" {
		t.Errorf("Schedules = %+v, %v", views, err)
	}
	if err := tick("01T17:01"); err != nil { // it is not asked for again and again
		t.Error(err)
	}
	f.refuse = context.DeadlineExceeded // something that may pass
	if err := tick("01T19:00"); err == nil {
		t.Error("a failure is not reported")
	}
	f.refuse = nil
	if err := tick("01T19:01"); err != nil {
		t.Error(err)
	}
	f.want("01T19:01", "01T13:00", "01T15:00", "01T19:00")
}

// A schedule that comes due while a leader follows it creates its intent, once.
func TestFollow(t *testing.T) {
	f := newSchedulers(t)
	s := f.at("01T13:00", "0 * * * *", 0)
	var calls atomic.Int64
	s.Now = func() time.Time { // one millisecond before the hour, until the scheduler has waited for it
		before := time.Date(2026, 1, 1, 12, 59, 59, 999_000_000, time.UTC)
		if calls.Add(1) <= 2 {
			return before
		}
		return before.Add(time.Second)
	}
	created := make(chan string, 8)
	s.Create = func(ctx context.Context, r api.IntentRequest) (intent.State, error) {
		state, err := f.create(ctx, r)
		created <- r.Key
		return state, err
	}
	following, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.Follow(following) })
	stop := func() { cancel(); all.Wait() }
	key := <-created
	stop()
	if key != "schedule/s/2026-01-01T13:00:00Z" || len(created) != 0 {
		t.Errorf("created %s and %d more", key, len(created))
	}
}

// TestFollowUp covers the intents that follow a check, by outcome and severity: one remedy for each check at most, none while one is
// open or within the cooldown, and the same one after a crash between the intent and its record.
func TestFollowUp(t *testing.T) {
	outputs := map[string]string{} // by intent
	remedies := map[string]intent.Status{}
	f := newSchedulers(t)
	var asked []api.IntentRequest
	scheduler := func(clock, severity string, repairs, urgent bool) *Scheduler {
		s := f.at(clock, "0 * * * *", time.Hour)
		c := s.All["s"]
		c.Severity, c.Repairs, c.Urgent = severity, repairs, urgent
		c.Request.Repo, c.Remedy = "/repo", api.IntentRequest{Input: []byte(`{"agent":"claude"}`)}
		s.All["s"] = c
		s.Create = func(ctx context.Context, r api.IntentRequest) (intent.State, error) {
			if r.Kind == "health_remediate" && !slices.Contains(f.keys, r.Key) {
				asked = append(asked, r)
			}
			state, err := f.create(ctx, r)
			state.Run = "run_1"
			return state, err
		}
		s.Outcome = func(_ context.Context, id string) (intent.State, json.RawMessage, error) {
			if status, ok := remedies[id]; ok {
				return intent.State{ID: id, Status: status}, nil, nil
			}
			out := outputs[id]
			switch out {
			case "":
				return intent.State{ID: id, Status: intent.Executing, Run: "run_1"}, nil, nil
			case "failed":
				return intent.State{ID: id, Status: intent.Failed, Run: "run_1", Reason: "the sprite is gone"}, nil, nil
			}
			return intent.State{ID: id, Status: intent.Succeeded, Run: "run_1"}, json.RawMessage(out), nil
		}
		return s
	}
	check := func(s *Scheduler, key, output string) (health, remedy, note string) {
		t.Helper()
		state, err := s.RunSchedule(t.Context(), "s", key)
		if err != nil {
			t.Fatal(err)
		}
		if running, err := s.FollowUp(t.Context(), "s"); err != nil || !running {
			t.Fatalf("FollowUp of a check that runs = %v, %v", running, err)
		}
		outputs[state.ID] = output
		for range 2 { // the second changes nothing
			if running, err := s.FollowUp(t.Context(), "s"); err != nil || running {
				t.Fatalf("FollowUp = %v, %v", running, err)
			}
		}
		last, _, err := s.loadLast("s")
		if err != nil {
			t.Fatal(err)
		}
		return last.Health, last.Remedy, last.Note
	}
	const bad, good = `{"exit_code":2,"stdout":"no answer","stderr":""}`, `{"exit_code":0,"stdout":"","stderr":""}`
	high := scheduler("05T10:00", "high", true, false)
	if health, remedy, note := check(high, "a", good); health != healthy || remedy != "" || note != "" {
		t.Errorf("a check that passes: %q %q %q", health, remedy, note)
	}
	if health, remedy, note := check(high, "b", "failed"); health != unknown || remedy != "" || note != "the sprite is gone" {
		t.Errorf("a check that did not run: %q %q %q", health, remedy, note)
	}
	if health, remedy, note := check(scheduler("05T10:00", "low", false, false), "c", bad); health != failing || remedy != "" || note != "the severity is low: no remedy" {
		t.Errorf("a failure that is low: %q %q %q", health, remedy, note)
	}
	health, first, note := check(high, "d", bad)
	if health != failing || first == "" || note != "" || len(asked) != 1 {
		t.Fatalf("a failure that is high: %q %q %q, %d requests", health, first, note, len(asked))
	}
	var input struct{ Agent, Prompt string }
	if r := asked[0]; json.Unmarshal(r.Input, &input) != nil || r.Repo != "/repo" || r.Urgent || input.Agent != "claude" ||
		!strings.Contains(input.Prompt, "exit code 2") || !strings.Contains(input.Prompt, "no answer") {
		t.Errorf("the request of the remedy is %+v with %s", r, r.Input)
	}
	remedies[first] = intent.Gated
	if _, remedy, note := check(high, "e", bad); remedy != first || note != first+" is gated" || len(asked) != 1 {
		t.Errorf("with an open remedy: %q %q, %d requests", remedy, note, len(asked))
	}
	remedies[first] = intent.Failed
	if _, remedy, note := check(high, "f", bad); remedy != first || !strings.Contains(note, "cooldown of 1h") || len(asked) != 1 {
		t.Errorf("within the cooldown: %q %q, %d requests", remedy, note, len(asked))
	}
	critical := scheduler("05T12:00", "critical", true, true)
	if _, remedy, _ := check(critical, "g", bad); remedy == first || len(asked) != 2 || !asked[1].Urgent {
		t.Errorf("after the cooldown: %q, %d requests", remedy, len(asked))
	}
	// A crash between the intent and the record of it: the same intent again.
	remedies[intent.ID("remedy/"+intent.ID("schedule/s/g"))] = intent.Succeeded
	later := scheduler("05T15:00", "critical", true, true)
	state, err := later.RunSchedule(t.Context(), "s", "h")
	if err != nil {
		t.Fatal(err)
	}
	outputs[state.ID] = bad
	facts := later.Facts
	later.Facts = &govern.Ledger{Store: facts.Store}
	if _, err := later.Create(t.Context(), api.IntentRequest{Kind: "health_remediate", Key: "remedy/" + state.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := later.FollowUp(t.Context(), "s"); err != nil || len(asked) != 3 {
		t.Errorf("after a crash: %v, %d requests", err, len(asked))
	}
}
