package runs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/spritekit/fault"
)

// The answer to a legacy question begins another run, with the options of the first one and the answer (DESIGN 25). The fact
// of the answer names that run before it exists. It is begun once: by the command that answers, by the same answer
// repeated, or by lattice resume after a crash in between.

// continueIn drives the run that next names, and begins it unless it exists.
func (rn *Starter) continueIn(ctx context.Context, id string, next runstate.Next, values api.Values, detach bool) (api.RunView, error) {
	v, begun, err := rn.beginLinked(ctx, id, next, values, detach)
	if err != nil || begun {
		return v, err
	}
	return rn.Drive(ctx, next.RunID, api.DriveRequest{Values: values, Detach: detach})
}

// beginLinked begins the run that next names; begun is false if it exists.
func (rn *Starter) beginLinked(ctx context.Context, id string, next runstate.Next, values api.Values, detach bool) (v api.RunView, begun bool, err error) {
	rn.linking.Lock()
	defer rn.linking.Unlock()
	key := strings.TrimPrefix(next.RunID, history.RunID(""))
	if there, err := rn.Records.FindStarted(key); err != nil || there != "" {
		return api.RunView{}, false, err
	}
	rec, err := rn.Records.Load(id)
	if err != nil {
		return api.RunView{}, false, err
	}
	program, err := rn.Records.Parse(rec)
	if err != nil {
		return api.RunView{}, false, fault.BadInput("flow_invalid", "go on from %s: %v", id, err)
	}
	o := rec.Kept
	o.ResumedFrom, o.Answers, o.Session = id, map[string]string{}, cmp.Or(o.Session, id)
	maps.Copy(o.Answers, rec.Kept.Answers)
	maps.Copy(o.Answers, next.Answers)
	if o.OwnSprite {
		o.Sprite, o.OwnSprite = "", false // it gets one of its own, too
	}
	o.Values, o.AgentEnv = values, slices.Clone(o.AgentEnv)
	for _, name := range slices.Sorted(maps.Keys(values.Secrets)) {
		if !slices.Contains(o.AgentEnv, name) { // a key that was missing
			o.AgentEnv = append(o.AgentEnv, name)
		}
	}
	v, err = rn.beginRun(ctx, program, api.RunRequest{Flow: rec.Program, Input: rec.Kept.Begin.Input, Key: key, Detach: detach}, o)
	return v, err == nil, err
}
