// Package lattice runs flows with the engine and the store of this repository, in this process. Start with Open. No sprite
// takes part: a call of a skill is the step itself.
package lattice

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/scripts/bench/peers/peer"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type self struct {
	store    *store.Store
	programs map[int]program // by steps
}

type program struct {
	text   []byte
	parsed *ir.Program
}

// Open makes a store, and the programs.
func Open(_ context.Context, dir string) (peer.Engine, error) {
	programs := map[int]program{}
	for _, steps := range peer.Lengths {
		text := linear(steps)
		parsed, findings := check.Parse(text, func(name string) (manifests.Skill, bool) {
			return manifests.Skill{Name: name, SideEffect: manifests.ClassRead}, true
		})
		if parsed == nil {
			return nil, fmt.Errorf("parse a flow of %d steps: %+v", steps, findings)
		}
		programs[steps] = program{text, parsed}
	}
	s, err := store.Open(filepath.Join(dir, "store.db"))
	return &self{s, programs}, err
}

// linear is a document whose one call is made so many times, one commit each.
func linear(steps int) []byte {
	again := `{"op":"exists","ref":"$vars.n"}`
	if steps == 1 {
		again = `{"op":"never"}`
	}
	return fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":"n","limits":{"max_steps":%d},"nodes":[
		{"id":"n","op":"TOOL_CALL","tool":"bench.step","args":{"a":1,"b":"some text"},"outputs":{"n":"$vars.n"}},
		{"id":"end","op":"PACK","inputs":{"n":"$vars.n"}}],
		"edges":[{"from":"n","to":"n","max_traversals":%d,"when":%s},{"from":"n","to":"end","when":{"op":"otherwise"}}]}`, steps+5, max(1, steps-1), again)
}

func (e *self) About() string {
	return "lattice, this commit: engine and store in this process, commits of many runs grouped; a step is a call of a skill without a sprite"
}

func (e *self) Close() error { return e.store.Close() }

func (e *self) Run(ctx context.Context, f peer.Flow) error {
	id, p, secret := "run_"+f.ID, e.programs[f.Steps], make([]byte, 32)
	if err := e.store.Create(ctx, store.RunRecord{ID: id, Created: time.Now(), Program: p.text, Secret: secret}); err != nil {
		return err
	}
	w := world{Flow: f}
	r, err := driver.Load(driver.Deps{Log: e.store, Caller: w, Boundary: w, Preparer: w, Actor: w, Now: time.Now, After: time.After}, p.parsed, id, secret, replay.History{})
	if err != nil {
		return err
	}
	if err := r.Begin(ctx, lattice.RunStarted{RunID: id, WorkItem: id, Program: p.parsed.Digest, Sprite: "main",
		Input: json.RawMessage(`{}`), Ctx: json.RawMessage(`{}`), Grants: ir.DefaultGrants()}); err != nil {
		return err
	}
	stop, err := r.Run(ctx)
	if err == nil && stop.Status != lattice.Succeeded {
		err = fmt.Errorf("run %s ended as %s", id, stop.Status)
	}
	return err
}

// world makes steps. Nothing else of it is asked for in these flows.
type world struct {
	peer.Flow
	driver.Boundary
	driver.Actor
}

func (w world) Call(ctx context.Context, _ lattice.Call, _ func(lattice.Event)) (lattice.Outcome, error) {
	return lattice.Outcome{Kind: lattice.Finished, Result: protocol.Result{OK: true, Data: json.RawMessage(`{"n":1}`)}}, w.Step(ctx)
}

func (world) Prepare(context.Context, string, string) (map[string]any, error) { return nil, nil }
