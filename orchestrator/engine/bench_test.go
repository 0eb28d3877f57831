package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// The rig runs a flow of calls that do nothing on a real store, so that what is left is the engine.

// linear is a document whose one call of a skill is made so many times, one commit each.
func linear(tool string, steps int) []byte {
	again := `{"op":"exists","ref":"$vars.n"}`
	if steps == 1 {
		again = `{"op":"never"}`
	}
	return fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":"n","limits":{"max_steps":%d},"nodes":[
		{"id":"n","op":"TOOL_CALL","tool":%q,"args":{"a":1,"b":"some text"},"outputs":{"n":"$vars.n"}},
		{"id":"end","op":"PACK","inputs":{"n":"$vars.n"}}],
		"edges":[{"from":"n","to":"n","max_traversals":%d,"when":%s},{"from":"n","to":"end","when":{"op":"otherwise"}}]}`, steps+5, tool, max(1, steps-1), again)
}

// idle is a world in which everything is done at once and nothing happens.
type idle struct{}

func (idle) Call(context.Context, lattice.Call, func(lattice.Event)) (lattice.Outcome, error) {
	return lattice.Outcome{Kind: lattice.Finished, Result: noResult}, nil
}
func (idle) Checkpoint(context.Context, string) (lattice.Pair, error) {
	return lattice.Pair{CheckpointID: "v1"}, nil
}
func (w idle) CheckpointDurable(ctx context.Context, sprite string) (lattice.Pair, error) {
	return w.Checkpoint(ctx, sprite)
}
func (idle) Restore(context.Context, string, lattice.Pair) error             { return nil }
func (idle) Prepare(context.Context, string, string) (map[string]any, error) { return nil, nil }
func (idle) Inspect(_ context.Context, _ lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error) {
	return a, lattice.Deny, "", nil
}
func (idle) Do(context.Context, lattice.Action) ([]byte, error) { return nil, nil }

// forks is idle, but for a process in each call, which is given JSON and waited for.
type forks struct{ idle }

func (f forks) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.Stdin = strings.NewReader(`{"a":1,"b":"some text"}`)
	if err := cmd.Run(); err != nil {
		return lattice.Outcome{}, err
	}
	return f.idle.Call(ctx, c, event)
}

func idleDeps(log driver.Log) driver.Deps {
	var w idle
	return driver.Deps{Log: log, Caller: w, Boundary: w, Preparer: w, Actor: w, Now: time.Now, After: time.After}
}

// appended is one append as the engine made it.
type appended struct {
	after   lattice.Seq
	entries []lattice.Entry
}

// recorder keeps copies of what passes to the log.
type recorder struct {
	driver.Log
	mu      sync.Mutex // guards appends
	appends map[string][]appended
}

func (r *recorder) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	r.mu.Lock()
	r.appends[run] = append(r.appends[run], appended{after, slices.Clone(entries)})
	r.mu.Unlock()
	return r.Log.Append(ctx, run, after, entries)
}

func openStore(t testing.TB, program []byte, runs []string) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range runs {
		if err := s.Create(t.Context(), store.RunRecord{ID: id, Created: time.Now(), Program: program, Secret: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func runIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("run_%020d", i)
	}
	return ids
}

// driveAll drives every run to its end, side by side, and says how long that took.
func driveAll(t testing.TB, p *ir.Program, log driver.Log, runs []string) time.Duration {
	t.Helper()
	var group sync.WaitGroup
	began := time.Now()
	for _, id := range runs {
		group.Go(func() { drive(t, p, idleDeps(log), id) })
	}
	group.Wait()
	return time.Since(began)
}

// drive drives a new run to its end.
func drive(t testing.TB, p *ir.Program, deps driver.Deps, id string) {
	r, err := driver.Load(deps, p, id, make([]byte, 32), replay.History{})
	if err == nil {
		err = r.Begin(t.Context(), lattice.RunStarted{RunID: id, WorkItem: id, Program: p.Digest, Sprite: "main",
			Input: json.RawMessage(`{"prompt":"fix it"}`), Ctx: json.RawMessage(`{"run_id":"` + id + `"}`), Grants: ir.DefaultGrants()})
	}
	var stop driver.Stop
	if err == nil {
		stop, err = r.Run(t.Context())
	}
	if err != nil || stop.Status != lattice.Succeeded {
		t.Errorf("run %s: %s, %v", id, stop.Status, err)
	}
}

// replayAll makes the recorded appends again, without an engine.
func replayAll(t testing.TB, log driver.Log, recorded map[string][]appended) time.Duration {
	t.Helper()
	var group sync.WaitGroup
	began := time.Now()
	for id, appends := range recorded {
		group.Go(func() {
			var last lattice.Seq
			for _, a := range appends {
				var err error
				if last, err = log.Append(t.Context(), id, last, a.entries); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// rawCommits appends the bytes of the recorded appends to a file, with an fdatasync after each.
func rawCommits(t testing.TB, appends []appended) time.Duration {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records [][]byte
	for _, a := range appends {
		raw, err := json.Marshal(a.entries)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, raw)
	}
	began := time.Now()
	for _, raw := range records {
		if _, err := f.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := syncData(f); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkEngine drives a flow of calls that do nothing and, in turns with it, makes the same appends straight to the
// store and the same writes straight to the disk. Medians over the rounds:
//
//	steps/s      nodes of the flow, over all runs
//	committer/s  the same appends without the engine
//	ratio        steps/s to committer/s
//	disk/s       write and fdatasync of the same bytes, one after another
func BenchmarkEngine(b *testing.B) {
	const rounds = 5
	for _, size := range []struct{ runs, steps int }{{1, 800}, {8, 300}, {64, 100}} {
		b.Run(fmt.Sprintf("runs=%d", size.runs), func(b *testing.B) {
			n, each := size.runs, size.steps
			program := linear("m.read", each)
			p, runs := parse(b, program), runIDs(n)
			record := &recorder{Log: openStore(b, program, runs), appends: map[string][]appended{}}
			driveAll(b, p, record, runs)
			closeStore(b, record.Log.(*store.Store))
			var driven, replayed, raw []time.Duration
			for range max(rounds, b.N) {
				s := openStore(b, program, runs)
				driven = append(driven, driveAll(b, p, s, runs))
				closeStore(b, s)
				s = openStore(b, program, runs)
				replayed = append(replayed, replayAll(b, s, record.appends))
				closeStore(b, s)
				raw = append(raw, rawCommits(b, record.appends[runs[0]]))
			}
			made, total := 0, each*n
			for _, appends := range record.appends {
				made += len(appends)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(total)/median(driven).Seconds(), "steps/s")
			b.ReportMetric(float64(made)/median(replayed).Seconds(), "committer/s")
			b.ReportMetric(median(replayed).Seconds()/median(driven).Seconds(), "ratio")
			b.ReportMetric(float64(len(record.appends[runs[0]]))/median(raw).Seconds(), "disk/s")
		})
	}
}

// BenchmarkFlows drives whole flows of 1, 10 and 100 calls that do nothing, or start a process, 1, 8 and 64 of them at
// once, each commit on disk before the next step begins:
//
//	steps/s  nodes of the flows, over all of them
//	p50-us   microseconds from the begin of a step to that of the next, or to the end of the flow; the middle one of all
//	p99-us   the same, the slowest but one in a hundred
//	disk/s   write and fdatasync of the same bytes, one after another
func BenchmarkFlows(b *testing.B) {
	for _, steps := range []int{1, 10, 100} {
		for _, atOnce := range []int{1, 8, 64} {
			size := fmt.Sprintf("steps=%d/runs=%d", steps, atOnce)
			b.Run("nothing/"+size, func(b *testing.B) {
				benchFlows(b, idle{}, steps, atOnce, max(2*atOnce, 2000/max(10, steps)))
			})
			b.Run("process/"+size, func(b *testing.B) {
				benchFlows(b, forks{}, steps, atOnce, max(atOnce, 400/max(10, steps)))
			})
		}
	}
}

// stopwatch times the steps of flows.
type stopwatch struct {
	driver.Caller
	mu    sync.Mutex           // guards all below
	begun map[string]time.Time // the step at hand, by run
	took  []time.Duration
}

func (w *stopwatch) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	w.lap(c.RunID)
	return w.Caller.Call(ctx, c, event)
}

// lap ends the run's step, if one is at hand, and begins the next.
func (w *stopwatch) lap(run string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, ok := w.begun[run]; ok {
		w.took = append(w.took, now.Sub(before))
	}
	w.begun[run] = now
}

func benchFlows(b *testing.B, caller driver.Caller, steps, atOnce, flows int) {
	program, runs := linear("m.read", steps), runIDs(flows)
	p, s := parse(b, program), openStore(b, program, runs)
	record := &recorder{Log: s, appends: map[string][]appended{}}
	deps := idleDeps(record)
	watch := &stopwatch{Caller: caller, begun: map[string]time.Time{}}
	deps.Caller = watch
	next := make(chan int, len(runs))
	for i := range runs {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	began := time.Now()
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				drive(b, p, deps, runs[i])
				watch.lap(runs[i])
			}
		})
	}
	workers.Wait()
	all := time.Since(began)
	closeStore(b, s)
	var appends []appended
	for _, id := range runs {
		const enough = 400
		appends = append(appends, record.appends[id]...)
		appends = appends[:min(len(appends), enough)]
	}
	raw := rawCommits(b, appends)
	took := watch.took
	if len(took) != steps*len(runs) {
		b.Fatalf("%d steps were timed, want %d", len(took), steps*len(runs))
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(steps*len(runs))/all.Seconds(), "steps/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(len(appends))/raw.Seconds(), "disk/s")
}
