package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// A linear step is one commit of one entry: its fact, which begins the next node. What the
// call says while it runs is stored with its end, unless that is long in coming.
func TestCommitsOfAStep(t *testing.T) {
	const steps = 50
	never := func(time.Duration) <-chan time.Time { return nil }
	for _, tc := range []struct {
		name, tool string
		says       int // events of each call
	}{
		{"read", "m.read", 0}, {"idempotent", "m.idem", 0}, {"read with events", "m.read", 4}, {"idempotent with events", "m.idem", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program := linear(tc.tool, steps)
			p, runs := parse(t, program), runIDs(1)
			log := &recorder{Log: openStore(t, program, runs), appends: map[string][]appended{}}
			defer closeStore(t, log.Log.(*store.Store))
			deps := idleDeps(log)
			deps.Caller, deps.After = talker{says: tc.says}, never
			drive(t, p, deps, runs[0])
			finished := 0
			for _, a := range log.appends[runs[0]] {
				kinds := map[string]int{}
				for _, e := range a.entries {
					kinds[e.Type]++
				}
				if kinds["CallFinished"] == 0 || kinds["COMPLETED"] > 0 {
					finished += kinds["CallFinished"]
					continue
				}
				finished++
				if want := map[string]int{"INFO": tc.says, "CallFinished": 1}; tc.says > 0 && !maps.Equal(kinds, want) || tc.says == 0 && len(a.entries) != 1 {
					t.Errorf("a step appended %v, want %v", kinds, want)
				}
				if fact := a.entries[len(a.entries)-1]; len(fact.Started) != 1 {
					t.Errorf("the commit that ended a step began %v, want the next one", fact.Started)
				}
			}
			// Beside the steps: RunStarted, Prepared, and the boundary before the first call that may write.
			want := steps + 2
			if tc.tool != "m.read" {
				want++
			}
			if commits := len(log.appends[runs[0]]); finished != steps || commits != want {
				t.Errorf("%d commits for %d steps, want %d for %d", commits, finished, want, steps)
			}
		})
	}
}

// talker says something in each call.
type talker struct {
	says int
	size int // of what it says, in bytes; 0 = little
}

func (c talker) Call(_ context.Context, call lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	for n := range c.says {
		event(lattice.Event{
			Sprite: call.Sprite, CallID: call.ID, Dedupe: fmt.Sprint(call.ID, n),
			Event: protocol.Event{Type: protocol.TypeInfo, Raw: fmt.Appendf(nil, `{"event_type":"INFO","x":"%*d"}`, c.size, n)},
		})
	}
	return lattice.Outcome{Kind: lattice.Finished, Result: noResult}, nil
}

// Events of a call that takes long are stored while it runs, and whatever comes from outside is stored behind them.
func TestEventsAreStoredMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		name  string
		while func(t *testing.T, r *driver.Runner, pause chan time.Time)
		end   lattice.RunStatus
	}{
		{"after a pause", func(_ *testing.T, _ *driver.Runner, pause chan time.Time) { pause <- time.Time{} }, lattice.Succeeded},
		{"before a decision", func(t *testing.T, r *driver.Runner, _ chan time.Time) {
			if err := r.Cancel(t.Context(), "ada"); err != nil {
				t.Error(err)
			}
		}, lattice.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program := []byte(one("m.read", ""))
			p, runs := parse(t, program), runIDs(1)
			log := &recorder{Log: openStore(t, program, runs), appends: map[string][]appended{}}
			defer closeStore(t, log.Log.(*store.Store))
			pause, said, end := make(chan time.Time), make(chan struct{}), make(chan struct{})
			deps := idleDeps(log)
			deps.After = func(time.Duration) <-chan time.Time { close(said); return pause }
			stored := make(chan struct{}, 1)
			deps.OnEntry = func(entries []lattice.Entry) {
				if entries[0].Type == "INFO" {
					stored <- struct{}{}
				}
			}
			deps.Caller = hold{end}
			r, err := driver.Load(deps, p, runs[0], make([]byte, 32), replay.History{})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Begin(t.Context(), lattice.RunStarted{RunID: runs[0], Program: p.Digest, Sprite: "main"}); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := r.Run(t.Context())
				ended <- err
			}()
			<-said
			tc.while(t, r, pause)
			<-stored
			close(end)
			if err := <-ended; err != nil || r.State().Status != tc.end {
				t.Errorf("Run = %v, the run is %s; want %s", err, r.State().Status, tc.end)
			}
		})
	}
}

// Large events do not wait until they fill the memory.
func TestLargeEventsAreStoredSoon(t *testing.T) {
	program := []byte(one("m.read", ""))
	p, runs := parse(t, program), runIDs(1)
	log := &recorder{Log: openStore(t, program, runs), appends: map[string][]appended{}}
	defer closeStore(t, log.Log.(*store.Store))
	deps := idleDeps(log)
	deps.Caller, deps.After = talker{says: 20, size: 1_000_000}, func(time.Duration) <-chan time.Time { return nil }
	drive(t, p, deps, runs[0])
	total := 0
	for _, a := range log.appends[runs[0]] {
		size := 0
		for _, e := range a.entries {
			size += len(e.Body)
		}
		if total += size; size > 6<<20 {
			t.Errorf("one append has %d bytes", size)
		}
	}
	if total < 20_000_000 {
		t.Errorf("%d bytes were stored, want all of 20 events of 1 MB", total)
	}
}

// What sprites say is recorded up to a bound, by whoever drives; then a warning stands in its place, once.
func TestEventBytesAreBounded(t *testing.T) {
	program := []byte(one("m.read", ""))
	p, runs := parse(t, program), runIDs(1)
	s := openStore(t, program, runs)
	defer closeStore(t, s)
	deps := idleDeps(s)
	deps.Caller, deps.MaxEventBytes = talker{says: 50, size: 1000}, 20_000
	drive(t, p, deps, runs[0])
	events, _, err := s.Events(runs[0], "INFO", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, e := range events {
		size += len(e.Body)
	}
	if size > 21_000 || len(events) != 20 || !strings.Contains(string(events[19].Body), "not recorded") {
		t.Errorf("%d events of %d bytes are recorded, the last one %s", len(events), size, events[len(events)-1].Body)
	}
	if h, err := s.Load(runs[0]); err != nil || h.EventBytes < 19_000 || h.EventBytes > 21_000 {
		t.Errorf("the store counts %d bytes of events, %v", h.EventBytes, err)
	}
}

// hold says one thing and ends when it is told to, or stopped.
type hold struct{ end chan struct{} }

func (c hold) Call(ctx context.Context, call lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	if _, err := (talker{says: 1}).Call(ctx, call, event); err != nil {
		return lattice.Outcome{}, err
	}
	select {
	case <-c.end:
		return lattice.Outcome{Kind: lattice.Finished, Result: noResult}, nil
	case <-ctx.Done():
		return lattice.Outcome{}, ctx.Err()
	}
}

// cost is what a process has spent so far.
type cost struct {
	mallocs, allocated, appended, written uint64
}

func (c cost) minus(d cost) cost {
	return cost{c.mallocs - d.mallocs, c.allocated - d.allocated, c.appended - d.appended, c.written - d.written}
}

// gauge reads the cost at certain steps, when the engine waits for a call and the store for the engine.
type gauge struct {
	driver.Log
	idle
	appended uint64
	step     int
	at       map[int]cost
}

func (g *gauge) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for _, e := range entries {
		g.appended += uint64(len(e.Body))
	}
	return g.Log.Append(ctx, run, after, entries)
}

func (g *gauge) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	g.step++
	if _, wanted := g.at[g.step]; wanted {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		g.at[g.step] = cost{m.Mallocs, m.TotalAlloc, g.appended, written()}
	}
	return g.idle.Call(ctx, c, event)
}

// written is how many bytes this process has handed to write calls, 0 where the system does not count.
func written() uint64 {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	var read, wrote uint64
	if _, err := fmt.Sscanf(string(data), "rchar: %d\nwchar: %d", &read, &wrote); err != nil {
		return 0
	}
	return wrote
}

// around is a document whose MAP of four items runs so many times. They run one by one: which of those that run side by
// side share a commit is up to the scheduler, and a commit costs.
func around(times int) []byte {
	return fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":"m","limits":{"max_steps":%d},"nodes":[
		{"id":"m","op":"MAP","items":[1,2,3,4],"max_items":4,"result":"$tmp.n","outputs":{"result":"$vars.n"},"body":{"entry_node":"n","nodes":[
			{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{"a":"$item","b":"some text"},"outputs":{"n":"$tmp.n"}}]}},
		{"id":"end","op":"PACK","inputs":{"n":"$vars.n"}}],
		"edges":[{"from":"m","to":"m","max_traversals":%d,"when":{"op":"exists","ref":"$vars.n"}},{"from":"m","to":"end","when":{"op":"otherwise"}}]}`, 6*times+10, times)
}

// loop is a document whose LOOP makes so many iterations, three times.
func loop(times int) []byte {
	return fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":"l","limits":{"max_steps":%d},"nodes":[
		{"id":"l","op":"LOOP","max_iterations":%d,"until":{"op":"eq","left":"$index","right":%d},"result":"$tmp.n","outputs":{"result":"$vars.n"},"body":{"entry_node":"n","nodes":[
			{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{"a":"$index","b":"some text"},"outputs":{"n":"$tmp.n"}}]}},
		{"id":"end","op":"PACK","inputs":{"n":"$vars.n"}}],
		"edges":[{"from":"l","to":"l","max_traversals":2,"when":{"op":"exists","ref":"$vars.n"}},{"from":"l","to":"end","when":{"op":"otherwise"}}]}`, 6*times+10, times, times-1)
}

// Step 10,000 costs what step 10 costs: allocations, bytes, what is appended, and what the store writes for it. What a
// step costs follows from the state, and that from the flow, not from what was.
func TestStepsCostTheSame(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates on its own account")
	}
	for name, program := range map[string][]byte{"linear": linear("m.read", last+window+10), "LOOP": loop((last + window + 12) / 3), "MAP": around((last + window + 10) / 4)} {
		t.Run(name, func(t *testing.T) { costTheSame(t, program, `{"prompt":"fix it"}`, last, 0.1) })
	}
}

// Item 9,000 of a MAP costs what item 10 costs, though the run holds the results of all before it: a state is copied,
// summed up and written down by what has changed in it.
func TestItemsCostTheSame(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates on its own account")
	}
	const items = 10_000 // as many as there may be
	program := fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":"m","limits":{"max_steps":%d,"max_state_bytes":10000000},"nodes":[
		{"id":"m","op":"MAP","items":"$in.items","max_items":%d,"result":"$tmp.n","outputs":{"result":"$vars.n"},"body":{"entry_node":"n","nodes":[
			{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{"a":"$item","b":"some text"},"outputs":{"n":"$tmp.n"}}]}},
		{"id":"end","op":"PACK","inputs":{"n":{"lit":1}}}],
		"edges":[{"from":"m","to":"end"}]}`, 2*items, items)
	input := `{"items":[0` + strings.Repeat(`,"an item with some text"`, items-1) + `]}`
	costTheSame(t, program, input, items-window-10, 0.2)
}

// Steps whose cost is compared: a window from the tenth, and one from the last.
const last, window = 10_000, 1000

// costTheSame holds that costs differ by no more than a part of them.
func costTheSame(t *testing.T, program []byte, input string, last int, part float64) {
	p, runs := parse(t, program), runIDs(2)
	s, err := store.Open(filepath.Join(memoryDir(t), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	for _, id := range runs {
		if err := s.Create(t.Context(), store.RunRecord{ID: id, Created: time.Now(), Program: program, Secret: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
	}
	history(t, s, runs[1], 2*last) // a store that has seen other runs: what counts is how long this one is
	g := &gauge{Log: s, at: map[int]cost{10: {}, 10 + window: {}, last: {}, last + window: {}}}
	deps := idleDeps(g)
	deps.Caller = g
	r, err := driver.Load(deps, p, runs[0], make([]byte, 32), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	begin := lattice.RunStarted{RunID: runs[0], Program: p.Digest, Sprite: "main", Input: json.RawMessage(input)}
	if err := r.Begin(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Succeeded {
		t.Fatalf("Run = %v, %v", stop.Status, err)
	}
	early, late := g.at[10+window].minus(g.at[10]), g.at[last+window].minus(g.at[last])
	for _, c := range []struct {
		what        string
		early, late uint64
	}{
		{"allocations", early.mallocs, late.mallocs},
		{"bytes allocated", early.allocated, late.allocated},
		{"bytes appended", early.appended, late.appended},
		{"bytes written", early.written, late.written},
	} {
		if c.early == 0 && c.what == "bytes written" {
			t.Log("this system does not count the bytes that a process writes")
			continue
		}
		ratio := float64(c.late) / float64(c.early)
		t.Logf("%s a step: %d at step 10, %d at step %d", c.what, c.early/window, c.late/window, last)
		if ratio < 1-part || ratio > 1+part {
			t.Errorf("%s: step %d costs %.3f of step 10, want %.2f to %.2f", c.what, last, ratio, 1-part, 1+part)
		}
	}
}

// history appends entries like those of a run.
func history(t *testing.T, s *store.Store, run string, n int) {
	t.Helper()
	body := json.RawMessage(`{"command_id":"e0.10000.call","call_id":"call_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","ok":true,"exit":0,"data":{"n":1}}`)
	var after lattice.Seq
	for n > 0 {
		batch := make([]lattice.Entry, min(n, 1000))
		for i := range batch {
			batch[i] = lattice.Entry{Run: run, At: time.Now(), Kind: lattice.EntryFact, Type: "CallFinished", Body: body, Started: []string{"n"}, StateSum: lattice.StateSum(nil)}
		}
		var err error
		if after, err = s.Append(t.Context(), run, after, batch); err != nil {
			t.Fatal(err)
		}
		n -= len(batch)
	}
}

// memoryDir is a folder without a disk behind it where there is one: counts are the same, and it is quick.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "lattice-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

var noResult = protocol.Result{OK: true, Data: json.RawMessage(`{"n":1}`)}
