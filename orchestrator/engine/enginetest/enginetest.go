// Package enginetest holds every driver of the engine, and of the store below it, against one suite: the same flow has the same journal with
// each of them, fact by fact. Start with Flows and RunToEnd; ReadJournal returns that which is compared, and Reordering is the proof
// that the comparison sees a driver that exchanges two facts. The skills here have no sandbox; the drivers and the store are real.
package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Run is the id of the runs of the suite.
const Run = "run_conformance"

// Flows run with each driver. One call is under way at a time, so that the order of facts follows from the flow.
func Flows() map[string]string {
	call := func(id, tool string) string {
		return fmt.Sprintf(`{"id":%q,"op":"TOOL_CALL","tool":%q,"outputs":{"result":"$tmp.%s"}}`, id, tool, id)
	}
	flow := func(entry, nodes, edges string) string {
		return fmt.Sprintf(`{"execir_version":"1.0","entry_node":%q,"nodes":[%s],"edges":[%s],"limits":{"max_parallel":1}}`, entry, nodes, edges)
	}
	return map[string]string{
		"linear": flow("a", call("a", "m.write")+","+call("b", "m.idem")+","+call("c", "m.world"), `{"from":"a","to":"b"},{"from":"b","to":"c"}`),
		"parallel": flow("p", `{"id":"p","op":"PARALLEL","branches":[
			{"name":"one","body":{"entry_node":"x","nodes":[`+call("x", "m.idem")+`]}},
			{"name":"two","body":{"entry_node":"y","nodes":[`+call("y", "m.read")+`]}}]}`, ``),
		"retry": flow("n", `{"id":"n","op":"TOOL_CALL","tool":"m.flaky","retry":[{"on":["ALL"],"max_attempts":3}]}`, ``),
		"wait and answer": flow("a", call("a", "m.write")+`,{"id":"h","op":"HUMAN","prompt":"How many?","expected_inputs":{"count":"integer"}},`+call("b", "m.idem"),
			`{"from":"a","to":"h"},{"from":"h","to":"b"}`),
		"map": flow("each", `{"id":"each","op":"MAP","items":[1,2,3],"max_items":3,"outputs":{"result":"$vars.r"},
			"body":{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"m.idem","args":{"i":"$item"},"outputs":{"result":"$tmp.out"}}],"edges":[]}}`, ``),
		"model": flow("pick", `{"id":"pick","op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1","inputs":{"question":"who?","candidates":[{"id":"C1","name":"A"},{"id":"C2","name":"B"}]},
			"output_schema":"ChoiceById","outputs":{"result":"$vars.choice"},"validators":[],"retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2}},`+call("b", "m.idem"), `{"from":"pick","to":"b"}`),
		"action": flow("a", call("a", "m.act")+","+call("b", "m.idem"), `{"from":"a","to":"b"}`),
		"pause":  flow("a", call("a", "m.write")+`,{"id":"w","op":"WAIT","seconds":0.01},`+call("b", "m.large"), `{"from":"a","to":"w"},{"from":"w","to":"b"}`),
	}
}

// LargeResult is the number of bytes that the skill m.large returns.
const LargeResult = 200 << 10

// FindSkill finds the manifests of the skills here.
func FindSkill(name string) (manifests.Skill, bool) {
	class, ok := map[string]manifests.Class{
		"m.read": manifests.ClassRead, "m.idem": manifests.ClassIdempotent, "m.large": manifests.ClassIdempotent, "m.write": manifests.ClassSprite, "m.flaky": manifests.ClassSprite, "m.world": manifests.ClassWorld, "m.act": manifests.ClassSprite,
	}[name]
	return manifests.Skill{Name: name, Permissions: []string{"exec"}, SideEffect: class}, ok
}

// Parse parses one of Flows.
func Parse(t testing.TB, flow string) *ir.Program {
	t.Helper()
	p, findings := check.Parse([]byte(flow), FindSkill)
	if p == nil {
		t.Fatalf("Parse(%s) = %+v", flow, findings)
	}
	return p
}

// World has sprites, skills and people. It is safe for concurrent use.
type World struct {
	mu          sync.Mutex
	checkpoints int            // guarded by mu, as all below
	runners     int            // so far
	asked       int            // questions to models
	Effects     map[string]int // calls of m.world and actions, by idempotency key
}

// Deps returns the dependencies of the next runner on a log, with a clock that stands still while that runs: events have times in
// their bodies.
func (w *World) Deps(log driver.Log) driver.Deps {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runners++
	now := time.Unix(1_800_000_000+int64(w.runners), 0)
	fired := func(time.Duration) <-chan time.Time {
		c := make(chan time.Time, 1)
		c <- time.Time{}
		return c
	}
	return driver.Deps{Log: log, Caller: w, Boundary: w, Preparer: w, Forker: w, Actor: w, Model: w, Now: func() time.Time { return now }, After: fired}
}

func (w *World) Prepare(context.Context, string, string) (map[string]any, error) {
	return map[string]any{"ready": true}, nil
}

func (w *World) Fork(_ context.Context, _ string, _ lattice.Pair, to string) (map[string]any, error) {
	return map[string]any{"sprite": to}, nil
}

func (w *World) Checkpoint(_ context.Context, sprite string) (lattice.Pair, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkpoints++
	return lattice.Pair{Sprite: sprite, CheckpointID: fmt.Sprint("v", w.checkpoints)}, nil
}

func (w *World) CheckpointDurable(ctx context.Context, sprite string) (lattice.Pair, error) {
	pair, err := w.Checkpoint(ctx, sprite)
	pair.Durable = true
	return pair, err
}

func (w *World) Restore(context.Context, string, lattice.Pair) error { return nil }

func (w *World) Inspect(_ context.Context, _ lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error) {
	return a, lattice.Allow, "", nil
}

func (w *World) Do(_ context.Context, a lattice.Action) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(a.Key)
	return []byte(`{"done":true}`), nil
}

// Ask answers the first question with a candidate that is not there, so that it is repaired.
func (w *World) Ask(context.Context, lattice.ModelRequest) (lattice.ModelReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return lattice.ModelReply{Provider: "p", Model: "m", Text: fmt.Sprintf(`{"id":"C%d"}`, 4-w.asked), Usage: lattice.ModelUsage{InputTokens: 10, OutputTokens: 1}}, nil
}

// count notes an effect. It requires mu.
func (w *World) count(key string) {
	if w.Effects == nil {
		w.Effects = map[string]int{}
	}
	w.Effects[key]++
}

func (w *World) Call(_ context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	body, err := json.Marshal(protocol.Event{Type: protocol.TypeInfo, CallID: c.ID})
	if err != nil {
		return lattice.Outcome{}, err
	}
	event(lattice.Event{Sprite: c.Sprite, CallID: c.ID, Dedupe: c.ID, Event: protocol.Event{Type: protocol.TypeInfo, Raw: body}})
	data := fmt.Appendf(nil, `{"n":%d}`, c.Visit)
	switch {
	case c.Skill == "m.act" && c.Resume == nil:
		at, err := w.Checkpoint(context.Background(), c.Sprite)
		return lattice.Outcome{Kind: lattice.Suspended, Request: &protocol.ActionRequest{Action: "notify", Parameters: json.RawMessage(`{}`), Blocking: true},
			Result: protocol.Result{OK: true, Waiting: &protocol.Waiting{Reason: "acts", CheckpointID: at.CheckpointID}}}, err
	case c.Skill == "m.flaky" && c.Attempt < 3:
		return lattice.Outcome{Kind: lattice.Finished, Exit: 5, Failure: expr.FailToolUnavailable, Result: protocol.Result{Error: &protocol.Fault{Code: "network", Message: "try again"}}}, nil
	case c.Skill == "m.large":
		data = fmt.Appendf(nil, `{"text":%q}`, fmt.Sprintf("%0*d", LargeResult, c.Visit))
	case c.Skill == "m.world":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count(c.IdempotencyKey)
	}
	return lattice.Outcome{Kind: lattice.Finished, Result: protocol.Result{OK: true, Data: data}}, nil
}

// Drive begins a drive of a run and waits until it comes to rest.
type Drive func(ctx context.Context, r *driver.Runner) (driver.Stop, error)

// RunToEnd runs a flow on a new store to its end, and opens the store again in each wait, which outlives a process. It returns the
// store. deps changes the dependencies of each runner; it may be nil.
func RunToEnd(t testing.TB, address, flow string, deps func(*store.Store, driver.Deps) driver.Deps, drive Drive) *store.Store {
	t.Helper()
	p := Parse(t, flow)
	s := openStore(t, address)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	record := store.RunRecord{ID: Run, Created: time.Unix(1_800_000_000, 0), Program: []byte(flow), Secret: make([]byte, 32)}
	if err := s.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	world := new(World)
	for status := lattice.RunStatus(""); status != lattice.Succeeded; {
		with := world.Deps(s)
		if deps != nil {
			with = deps(s, with)
		}
		r := LoadRunner(t, s, with, p)
		var err error
		if status == "" {
			err = r.Begin(t.Context(), lattice.RunStarted{RunID: Run, Program: p.Digest, Sprite: "main"})
		} else if waits := r.State().Waits; len(waits) > 0 && waits[0].Prompt != "" {
			err = r.Decide(t.Context(), lattice.Answered{WaitID: waits[0].ID, Decision: "answer", By: "ada", Inputs: json.RawMessage(`{"count":3}`)})
		}
		if err != nil {
			t.Fatal(err)
		}
		stop, err := drive(t.Context(), r)
		if err != nil || stop.Status != lattice.Succeeded && (stop.Status != lattice.Waiting || status != "") {
			t.Fatalf("Run = %+v, %v", stop, err)
		}
		status = stop.Status
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, address)
	}
	return s
}

func openStore(t testing.TB, address string) *store.Store {
	t.Helper()
	s, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// LoadRunner loads the run from a store.
func LoadRunner(t testing.TB, s *store.Store, deps driver.Deps, p *ir.Program) *driver.Runner {
	t.Helper()
	h, err := s.Load(Run)
	if err != nil {
		t.Fatal(err)
	}
	r, err := driver.Load(deps, p, Run, make([]byte, 32), replay.History{Facts: h.Facts, Snapshot: h.State.Body, SnapshotSeq: h.State.Seq, Last: h.Last, EventBytes: h.EventBytes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Reader is the part of a store with which a journal is read.
type Reader interface {
	Entries(run string, after lattice.Seq, limit int) ([]lattice.Entry, error)
}

// ReadJournal returns the entries of the run, without sequence numbers and times.
func ReadJournal(t testing.TB, s Reader) []lattice.Entry {
	t.Helper()
	entries, err := s.Entries(Run, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		entries[i].Seq, entries[i].At, entries[i].Active = 0, time.Time{}, 0
	}
	return entries
}

// Reordering is a store in which the fact At has the place of the next one.
type Reordering struct {
	Reader
	At int
}

// Entries returns the entries of a run with the two facts exchanged.
func (x Reordering) Entries(run string, after lattice.Seq, limit int) ([]lattice.Entry, error) {
	entries, err := x.Reader.Entries(run, after, limit)
	facts := FindFacts(entries)
	i, j := facts[x.At], facts[x.At+1]
	entries[i], entries[j] = entries[j], entries[i]
	return entries, err
}

// FindFacts returns the places of the facts among entries.
func FindFacts(entries []lattice.Entry) (at []int) {
	for i, e := range entries {
		if e.Kind == lattice.EntryFact {
			at = append(at, i)
		}
	}
	return at
}
