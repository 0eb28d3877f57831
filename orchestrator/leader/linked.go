package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The answer to a legacy question begins another run, with what this one was given and the answer (DESIGN 25). The
// answer names it before it is there; whoever comes by begins it once, be it the command that answers, the same answer
// given again, or lattice resume after a crash in between.

// goOn goes on with the run that next names, and begins it if nobody has.
func (l *Leader) goOn(ctx context.Context, id string, next engine.Next, values api.Values, detach bool) (api.RunView, error) {
	v, begun, err := l.link(ctx, id, next, values, detach)
	if err != nil || begun {
		return v, err
	}
	return l.Drive(ctx, next.RunID, api.DriveRequest{Values: values, Detach: detach})
}

// link begins the run that next names; begun is false when it is there already.
func (l *Leader) link(ctx context.Context, id string, next engine.Next, values api.Values, detach bool) (v api.RunView, begun bool, err error) {
	l.linking.Lock()
	defer l.linking.Unlock()
	key := strings.TrimPrefix(next.RunID, runID(""))
	if there, err := l.startedBefore(key); err != nil || there != "" {
		return api.RunView{}, false, err
	}
	rec, err := l.record(id)
	if err != nil {
		return api.RunView{}, false, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return api.RunView{}, false, refuseFlow("flow_invalid", protocol.ExitBadInput, findings)
	}
	o := rec.kept
	o.ResumedFrom, o.Answers = id, map[string]string{}
	maps.Copy(o.Answers, rec.kept.Answers)
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
	v, err = l.begin(ctx, program, api.RunRequest{Flow: rec.Program, Input: rec.kept.Begin.Input, Key: key, Detach: detach}, o)
	return v, err == nil, err
}

// next is the run that goes on after run id, nil when there is none.
func (l *Leader) next(id string) (*engine.Next, error) {
	at, _, err := l.standing(id)
	return at.State.Next, err
}

// writeAnswers puts answers.json into a run's sprite, and the same into task. A sprite that others used before must not
// hold theirs.
func (l *Leader) writeAnswers(ctx context.Context, sprite string, o options, task *protocol.Task) error {
	path := "/workspace/" + protocol.AnswersFile
	if len(o.Answers) == 0 {
		if o.OwnSprite {
			return nil
		}
		if err := l.client.Remove(ctx, sprite, path, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove answers.json of an earlier run: %w", err)
		}
		return nil
	}
	task.Answers = make(map[string]any, len(o.Answers))
	for name, answer := range o.Answers {
		task.Answers[name] = answer
	}
	data, err := json.Marshal(o.Answers)
	if err != nil {
		return fmt.Errorf("encode answers.json: %w", err)
	}
	if err := l.client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write answers.json: %w", err)
	}
	return nil
}
