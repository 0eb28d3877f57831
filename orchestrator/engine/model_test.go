package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// play drives the run to its end through every death that the fuses bring, answering what it asks.
func play(p *ir.Program, w *world, fuses ...int) (runstate.State, error) {
	return playAs(p, "run_1", w, fuses...)
}

func playAs(p *ir.Program, run string, w *world, fuses ...int) (runstate.State, error) {
	ctx := context.Background()
	for lives := 0; lives < 100; lives++ {
		w.mu.Lock()
		w.dead = false
		w.mu.Unlock()
		r, err := driver.Load(w.deps(), p, run, []byte("secret"), replay.History{Facts: w.log, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq, Last: w.last})
		if err != nil {
			return runstate.State{}, err
		}
		err = recoverFrom(ctx, p, run, r, w)
		if err == nil {
			err = live(ctx, p, r, w)
		}
		if err == nil {
			return r.State(), nil
		}
		if !errors.Is(err, errKilled) {
			return runstate.State{}, err
		}
		if w.disk > 0 {
			w.lose()
		}
		w.fuse = -1
		if len(fuses) > 0 {
			w.fuse, fuses = fuses[0], fuses[1:]
		}
	}
	return runstate.State{}, errors.New("the run does not end")
}

// recoverFrom takes the run back where the power was lost since it was driven last.
func recoverFrom(ctx context.Context, p *ir.Program, run string, r *driver.Runner, w *world) error {
	s := r.State()
	if s.Disk == w.diskName() || s.Status == lattice.Pending || s.Status.Ended() || s.Status.Blocked() {
		return r.Recover(ctx, nil)
	}
	lost, err := replay.SoundPoint(p, run, w.log, w.diskName(), w.keptTurns(), w.survives)
	if err != nil {
		return err
	}
	if err := w.checkTurns(r, s, lost); err != nil {
		return err
	}
	return r.Recover(ctx, &lost)
}

// checkTurns fails if an agent at work in a state loses a turn although each other sprite in use is clean or has such an agent,
// with a turn or with durable files from before it.
func (w *world) checkTurns(r *driver.Runner, s runstate.State, lost lattice.PowerLost) error {
	turns := map[string]lattice.Pair{}
	for _, c := range s.Pending {
		if c.Kind != lattice.DoCall || c.Call.Skill != "m.agent" {
			continue
		}
		if w.survives(s.Pairs[c.Sprite]) {
			turns[c.Sprite] = s.Pairs[c.Sprite]
		}
		for turn := range agentTurns {
			told := fmt.Sprintf("%s/%s turn %d", c.Sprite, r.CallID(c.ID), turn)
			if pair, ok := w.turns[told]; ok && w.dedupe[told] {
				turns[c.Sprite] = pair
			}
		}
	}
	for _, sprite := range s.SpritesInUse() {
		if turns[sprite].Sprite == "" && (s.Recovering != nil || s.Dirty[sprite] || !w.survives(s.Pairs[sprite])) {
			return nil
		}
	}
	for sprite, pair := range turns {
		w.turnsKept++
		if !slices.ContainsFunc(lost.Sprites, func(b lattice.SpriteBack) bool {
			return b.Pair.Sprite == sprite && b.Pair.CheckpointID == pair.CheckpointID
		}) {
			return fmt.Errorf("the agent in %s goes on from another turn than %s: %+v", sprite, pair.CheckpointID, lost.Sprites)
		}
	}
	w.besides += max(0, len(turns)-1)
	return nil
}

func live(ctx context.Context, p *ir.Program, r *driver.Runner, w *world) error {
	if r.State().Status == lattice.Pending {
		if err := r.Begin(ctx, lattice.RunStarted{
			RunID: "run_1", WorkItem: "w", Program: p.Digest, Sprite: "main-1", Input: json.RawMessage(`{}`), Grants: []string{"*"}, Disk: w.diskName(), AskWorld: w.disk > 0,
		}); err != nil {
			return err
		}
	}
	for {
		stop, err := r.Run(ctx)
		if err != nil || stop.Status.Ended() {
			return err
		}
		for _, wait := range stop.Waits {
			a := lattice.Answered{WaitID: wait.ID, Decision: lattice.Approve, By: "ada", At: "2026-01-01T00:00:00Z"}
			switch wait.Kind {
			case lattice.WaitSkill:
				a.Decision, a.Inputs = lattice.Answer, json.RawMessage(`{"go":true}`)
			case lattice.WaitUnknown:
				a.Decision, a.Inputs = lattice.Answer, w.truth(calling(r.State().Lane))
			case lattice.WaitQuestion, lattice.WaitBlocked:
				a.Decision, a.Inputs = lattice.Answer, json.RawMessage(`{"answer":"blue"}`)
			case lattice.WaitAction, lattice.WaitHuman, lattice.WaitWorld:
			}
			if err := r.Decide(ctx, a); err != nil {
				return err
			}
			if err := r.Decide(ctx, a); !errors.Is(err, engine.ErrStale) {
				return fmt.Errorf("second answer: %v, want ErrStale", err)
			}
		}
	}
}

// calling finds the visit of the one call that is made, in whatever MAP.
func calling(l runstate.Lane) *runstate.Visit {
	if l.Visit == nil || l.Visit.Map == nil {
		return l.Visit
	}
	return calling(l.Visit.Map.Open[0].Lane)
}

// truth is what an honest person finds out about a world call that was cut off.
func (w *world) truth(v *runstate.Visit) json.RawMessage {
	if w.effects[v.Call.IdempotencyKey] == 0 {
		return json.RawMessage(`{"outcome":"retry"}`)
	}
	return json.RawMessage(fmt.Sprintf(`{"outcome":"done","result":{"n":%d}}`, v.Number))
}

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// flowOf makes a chain of nodes; a kind with "+" in front goes back to the first node once. "each a b" is a MAP over
// three items with the chain a b as its body, "at once a b" one that runs them at once, "forks a b" one that
// does so in copies of the sprite.
func flowOf(t tester, kinds []string) *ir.Program {
	t.Helper()
	nodes, edges := chain("n", "$vars", kinds)
	doc, err := json.Marshal(map[string]any{"execir_version": "1.0", "entry_node": "n0", "nodes": nodes, "edges": edges})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, doc)
}

// chain makes the nodes and edges of a chain whose ids have this prefix and which writes below root.
func chain(prefix, root string, kinds []string) (nodes, edges []map[string]any) {
	nodes, edges = []map[string]any{}, []map[string]any{}
	first := prefix + "0"
	for i, kind := range kinds {
		id := fmt.Sprint(prefix, i)
		node := map[string]any{"id": id, "op": "TOOL_CALL", "outputs": map[string]string{"result": root + "." + id}, "args": map[string]any{}}
		name := strings.TrimPrefix(kind, "+")
		body, concurrency := "", 1
		if rest, ok := strings.CutPrefix(name, "each "); ok {
			name, body = "MAP", rest
		} else if rest, ok := strings.CutPrefix(name, "at once "); ok {
			name, body, concurrency = "MAP", rest, 3
		} else if rest, ok := strings.CutPrefix(name, "forks "); ok {
			name, body, concurrency, node["sprite"] = "MAP", rest, 3, "fork"
		}
		if rest, ok := strings.CutPrefix(name, "beside "); ok {
			name, body = "PARALLEL", rest
		} else if rest, ok := strings.CutPrefix(name, "loop "); ok {
			name, body = "LOOP", rest
		}
		switch name {
		case "PARALLEL":
			branches := []map[string]any{}
			for j, kind := range strings.Fields(body) {
				inner, between := chain(fmt.Sprint(id, "_", j, "_"), "$tmp", []string{kind, "pack"})
				branches = append(branches, map[string]any{
					"name": fmt.Sprint("b", j), "body": map[string]any{"entry_node": inner[0]["id"], "nodes": inner, "edges": between},
				})
			}
			delete(node, "args")
			node["op"], node["branches"] = "PARALLEL", branches
		case "LOOP":
			inner, between := chain(id+"_", root, strings.Fields(body))
			delete(node, "args")
			node["op"], node["max_iterations"], node["until"] = "LOOP", 3, map[string]any{"op": "ge", "left": "$index", "right": 1}
			node["body"] = map[string]any{"entry_node": id + "_0", "nodes": inner, "edges": between}
		case "set":
			node = map[string]any{"id": id, "op": "SET", "set": map[string]any{root + "." + id: "x"}}
		case "emit":
			node = map[string]any{"id": id, "op": "EMIT", "event": map[string]any{"kind": "progress", "message": id}}
		case "wait":
			node = map[string]any{"id": id, "op": "WAIT", "seconds": 60}
		case "MAP":
			kinds := strings.Fields(body)
			if kinds[0] == "each" { // a MAP in a MAP
				kinds = []string{body}
			}
			inner, between := chain(id+"_", "$tmp", kinds)
			delete(node, "args")
			node["op"], node["items"], node["max_items"], node["concurrency"] = "MAP", []int{1, 2, 3}, 3, concurrency
			node["body"] = map[string]any{"entry_node": id + "_0", "nodes": inner, "edges": between}
		case "copy", "copyask", "copyagent": // in copies of the sprite
			node["tool"], node["sprite"] = map[string]string{"copy": "m.write", "copyask": "m.ask", "copyagent": "m.agent"}[name], "fork"
		case "kept":
			node["tool"], node["cache"] = "m.read", "run"
		case "model", "keptmodel": // repairs, escalates, passes
			if name == "keptmodel" {
				node["cache"] = "run"
			}
			delete(node, "args")
			var asks map[string]any
			if err := json.Unmarshal([]byte(`{"op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1","output_schema":"ChoiceById",
				"inputs":{"question":"who?","candidates":[{"id":"C1"},{"id":"C2"}]},`+policies+escalate+`}`), &asks); err != nil {
				panic(err)
			}
			maps.Copy(node, asks)
		case "human":
			node["op"], node["prompt"] = "HUMAN", "go on?"
			delete(node, "args")
		case "pack":
			node["op"], node["inputs"] = "PACK", map[string]any{"ids": map[string]any{"ref": "$ctx.ready", "default": "no sprite"}}
			delete(node, "args")
		default:
			node["tool"] = "m." + name
			node["retry"] = []map[string]any{{"on": []string{expr.FailToolUnavailable}}}
		}
		nodes = append(nodes, node)
		if kind[0] == '+' {
			edges = append(edges, map[string]any{
				"from": id, "to": first, "max_traversals": 1, "when": map[string]any{"op": "exists", "ref": root + "." + first},
			})
		}
		if i+1 < len(kinds) {
			edge := map[string]any{"from": id, "to": fmt.Sprint(prefix, i+1)}
			if kind[0] == '+' {
				edge["when"] = map[string]any{"op": "otherwise"}
			}
			edges = append(edges, edge)
		}
	}
	return nodes, edges
}

func parse(t tester, doc []byte) *ir.Program {
	t.Helper()
	p, findings := check.Parse(doc, tools)
	if p == nil {
		t.Fatalf("Parse(%s) = %+v", doc, findings)
	}
	return p
}

// tools are the skills of the model. Their inputs are not declared, so any go.
func tools(name string) (manifests.Skill, bool) {
	class, ok := map[string]manifests.Class{
		"m.read": manifests.ClassRead, "m.peek": manifests.ClassRead, "m.idem": manifests.ClassIdempotent, "m.write": manifests.ClassSprite,
		"m.flaky": manifests.ClassSprite, lattice.VerifySkill: manifests.ClassSprite, "m.ask": manifests.ClassSprite, "m.allow": manifests.ClassSprite,
		"m.wants": manifests.ClassSprite, "m.deny": manifests.ClassSprite, "m.legacy": manifests.ClassSprite, "m.free": manifests.ClassSprite, "m.agent": manifests.ClassSprite, "m.world": manifests.ClassWorld,
	}[name]
	return manifests.Skill{Name: name, Permissions: []string{"exec", "fs:write"}, SideEffect: class, Continues: name == "m.agent"}, ok
}

// end is what must not depend on when and how often the driver died.
type end struct {
	Status  lattice.RunStatus
	Failure *expr.Failure
	Vars    map[string]any
	Output  any
	Next    *runstate.Next
	Visits  map[string]int
	Files   map[string]int
	Effects map[string]int
	Actions map[string]int
	Events  int
}

func endOf(s runstate.State, w *world) end {
	files := maps.Clone(w.sprite.files)
	return end{s.Status, s.Failure, s.Vars, s.Output, s.Next, s.Visits, files, w.effects, w.actions, len(w.dedupe)}
}

// TestKilledAnywhere is the promise of the engine: kill it at any step of any flow, and the end is the same.
func TestKilledAnywhere(t *testing.T) {
	kinds := []string{"read", "idem", "write", "world", "flaky", "ask", "allow", "wants", "deny", "human", "legacy", "pack", "set", "emit", "wait", "model", "copy", "copyask", "agent", "copyagent", "kept", "keptmodel"}
	checked := func(t tester, flow []string, stride, second int) {
		p := flowOf(t, flow)
		calm := newWorld(-1)
		s, err := play(p, calm)
		if err != nil {
			t.Fatalf("%v undisturbed: %v", flow, err)
		}
		want := endOf(s, calm)
		if (want.Status != lattice.Succeeded) != (want.Next != nil) { // an answered question ends the run
			t.Fatalf("%v undisturbed: %s: %v", flow, want.Status, want.Failure)
		}
		for key, n := range want.Effects {
			if n != 1 {
				t.Fatalf("%v undisturbed: effect %s happened %d times", flow, key, n)
			}
		}
		checkReplay(t, p, calm)
		for fuse := second % stride; fuse < calm.ticks; fuse += stride {
			w := newWorld(fuse)
			s, err := play(p, w, second)
			if err != nil {
				t.Fatalf("%v killed at %d, then %d: %v", flow, fuse, second, err)
			}
			got := endOf(s, w)
			// Settled world calls run under a new attempt and so tell their events again.
			got.Events, want.Events = 0, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%v killed at %d, then %d: end (-want +got):\n%s", flow, fuse, second, diff)
			}
			if fuse%5 == 0 {
				checkReplay(t, p, w)
			}
		}
	}
	t.Run("every kind", func(t *testing.T) {
		for _, kind := range kinds {
			checked(t, []string{"write", "+" + kind, "pack"}, 1, 1000) // twice, and behind a write each time
		}
	})
	t.Run("in iterations", func(t *testing.T) {
		for i, flow := range [][]string{
			{"each write"}, {"each +world ask"}, {"each wants human"}, {"each each idem"}, {"at once read +read pack", "write"},
			{"write", "at once peek read", "write"}, {"+each flaky", "pack"}, {"write", "forks +write idem", "write"}, {"forks ask write", "forks wants"}, {"+forks flaky write", "each write"}, {"each idem legacy", "write"},
			{"beside world ask", "write"}, {"+beside read peek", "pack"}, {"loop world flaky", "+write", "pack"}, {"each emit wait human", "pack"}, {"write", "at once model", "write"},
			{"loop emit human", "each set read"}, {"at once kept +kept pack", "kept", "write", "kept"}, {"write", "at once copy", "write"},
			{"loop copy kept", "beside copyask keptmodel"}, {"forks kept copy write", "+kept", "pack"}, {"at once keptmodel", "each copyask"}, {"forks agent idem", "at once copyagent read"},
		} {
			checked(t, flow, 9, 1000+i) // another place each
		}
	})
	t.Run("random", rapid.MakeCheck(func(rt *rapid.T) {
		flow := rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(kinds), "+write", "+world", "+wants", "each idem", "beside read peek", "loop world", "at once read pack")), 1, 4).Draw(rt, "flow")
		checked(rt, append(flow, "pack"), 13, rapid.IntRange(0, 40).Draw(rt, "second"))
	}))
}

// TestTakenBackOnce kills runs that fail and take back what they did: each effect happens once, and is taken back once.
func TestTakenBackOnce(t *testing.T) {
	undoes := `,"compensate":{"tool":"m.world","args":{"n":"$out.n"}}`
	p := parse(t, []byte(graphOf("a", call("a", "m.world", undoes)+","+call("b", "m.write", undoes)+`,
		{"id":"l","op":"LOOP","until":{"op":"ge","left":"$index","right":1},"max_iterations":2,"body":{"entry_node":"c","nodes":[`+call("c", "m.world", undoes)+`]}},
		{"id":"z","op":"FAIL","message":"too bad"}`, `{"from":"a","to":"b"},{"from":"b","to":"l"},{"from":"l","to":"z"}`)))
	calm := newWorld(-1)
	s, err := play(p, calm)
	if err != nil {
		t.Fatal(err)
	}
	want := endOf(s, calm)
	if len(want.Effects) != 7 || !strings.HasSuffix(want.Failure.Message, "undone: l[1]/c, l[0]/c, b, a") {
		t.Fatalf("undisturbed: %d effects, %v", len(want.Effects), want.Failure)
	}
	checkReplay(t, p, calm)
	for fuse := range calm.ticks {
		w := newWorld(fuse)
		s, err := play(p, w, fuse%17)
		if err != nil {
			t.Fatalf("killed at %d: %v", fuse, err)
		}
		got := endOf(s, w)
		got.Events, want.Events = 0, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("killed at %d: end (-want +got):\n%s", fuse, diff)
		}
	}
}

// replay steps through the journal: it leads to the stored state, no Step changes its input, and a state that went
// through JSON steps like the one that did not.
func checkReplay(t tester, p *ir.Program, w *world) {
	s := runstate.New("run_1")
	for _, e := range w.log {
		if e.Kind != lattice.EntryFact {
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		before := encode(t, s)
		copied, err := runstate.Decode(before)
		if err != nil {
			t.Fatal(err)
		}
		next, commands, err := engine.Step(p, s, fact)
		if err != nil {
			t.Fatalf("replay %s: %v", e.Type, err)
		}
		if after := encode(t, s); string(after) != string(before) {
			t.Fatalf("Step(%s) changed its input:\n%s", e.Type, cmp.Diff(string(before), string(after)))
		}
		again, commandsAgain, err := engine.Step(p, copied, fact)
		if err != nil {
			t.Fatalf("replay %s on the decoded state: %v", e.Type, err)
		}
		if got, want := encode(t, again), encode(t, next); string(got) != string(want) {
			t.Fatalf("Step(decode(encode(s)), %s):\n%s", e.Type, cmp.Diff(string(want), string(got)))
		}
		if diff := cmp.Diff(commands, commandsAgain); diff != "" {
			t.Fatalf("commands of Step(decode(encode(s)), %s): %s", e.Type, diff)
		}
		if _, _, err := engine.Step(p, next, fact); e.Type != "ActionNoted" && !errors.Is(err, engine.ErrStale) {
			t.Fatalf("second %s: %v, want ErrStale", e.Type, err)
		}
		s = next
	}
	if got := encode(t, s); string(got) != string(w.snapshot) {
		t.Fatalf("replay ends in another state than the stored one:\n%s", cmp.Diff(string(w.snapshot), string(got)))
	}
}

func encode(t tester, s runstate.State) []byte {
	t.Helper()
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
