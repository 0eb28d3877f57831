package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader/govern"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Decisions makes facts of people's decisions.
type Decisions struct {
	Client  *sprites.Client
	Records *history.Records
	States  *history.States
	Views   *views.Views
	Drives  *drive.Drives
	Starter *Starter
	// Approvals checks and records what people decide.
	Approvals *govern.Approvals
}

// Decide appends a person's decision and drives the run. Of several decisions on one wait the first on disk counts. The same
// decision again changes nothing and gets the same reply; a different one is refused with the first decision, its author
// and its time.
func (ds *Decisions) Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error) {
	id, err := ds.Records.Resolve(id)
	if err != nil {
		return api.DecideReply{}, err
	}
	if err := ds.Starter.RenewValues(id, d.Values); err != nil {
		return api.DecideReply{}, err
	}
	if err := ds.Drives.AwaitHandover(ctx); err != nil {
		return api.DecideReply{}, err
	}
	r, err := ds.Drives.LoadReady(ctx, id)
	if err != nil {
		return api.DecideReply{}, err
	}
	w, err := openWait(id, r.Runner.State(), d.WaitID)
	if err != nil {
		return ds.answerLate(ctx, id, d, nil, err)
	}
	fact, err := makeAnswer(w, d)
	if err == nil && w.Legacy() { // the answer's run may get more than the one that asked
		err = checkVariables(slices.Sorted(maps.Keys(d.Secrets)))
	}
	if err != nil {
		return api.DecideReply{}, errors.Join(err, ds.Approvals.RefuseAnswer(ctx, id, w, err))
	}
	if err := ds.checkSprite(ctx, id, w); err != nil {
		return api.DecideReply{}, err
	}
	if err := ds.record(ctx, id, w, fact); err != nil {
		return api.DecideReply{}, err
	}
	switch err := r.Runner.Decide(ctx, fact); {
	case errors.Is(err, engine.ErrStale):
		d.WaitID = w.ID
		return ds.answerLate(ctx, id, d, fact.Inputs, notWaiting(id, r.Runner.State()))
	case errors.Is(err, engine.ErrAnswer):
		err := fault.BadInput("bad_answer", "%v", err)
		return api.DecideReply{}, errors.Join(err, ds.Approvals.RefuseAnswer(ctx, id, w, err))
	case err != nil:
		return api.DecideReply{}, fmt.Errorf("record the decision: %w", err)
	}
	return ds.driveOn(ctx, id, d, api.DecideReply{WaitID: w.ID})
}

// record records a decision before it becomes a fact, and checks that the person may make it.
func (ds *Decisions) record(ctx context.Context, id string, w lattice.Wait, a lattice.Answered) error {
	if w.Action != nil {
		return ds.Approvals.Decide(ctx, *w.Action, w.ID, a.Decision, a.Comments)
	}
	return ds.Approvals.Answer(ctx, id, w, a)
}

// checkSprite refuses a decision on a run whose sprite is gone, so that the decision is not spent on a run that is known to
// fail. If the host cannot be asked, the decision is taken: the run stops at the sprite and can be resumed.
func (ds *Decisions) checkSprite(ctx context.Context, id string, w lattice.Wait) error {
	rec, err := ds.Records.Load(id)
	if err != nil || rec.Sprite == "" || w.Legacy() && rec.Kept.OwnSprite {
		return err
	}
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err := ds.Client.Get(look, rec.Sprite); !errors.Is(err, sprites.ErrNotFound) {
		return ctx.Err()
	}
	return fault.NotFound("sprite_missing", "the sprite %s of %s is not there any more, so the run cannot go on; nothing was recorded", rec.Sprite, id).WithHint("lattice sprite ls lists the sprites of this host: is SPRITES_API_URL set as it was when the run began? If the sprite is lost: lattice cancel %s", id)
}

// lookTimeout bounds the search for a sprite while a person waits.
const lookTimeout = 10 * time.Second

// driveOn drives the run after a decision. A leader that is ending leaves that to the next one.
func (ds *Decisions) driveOn(ctx context.Context, id string, d api.DecideRequest, reply api.DecideReply) (api.DecideReply, error) {
	next, err := ds.States.FindNext(id)
	if err != nil {
		return api.DecideReply{}, err
	}
	if next != nil {
		reply.Run, err = ds.Starter.continueIn(ctx, id, *next, d.Values, d.Detach)
		return reply, err
	}
	if err := ds.Drives.Drive(ctx, id); err != nil && !drive.ClosingNow(err) {
		return api.DecideReply{}, err
	}
	ds.Drives.Detach(id, d.Detach)
	reply.Run, err = ds.Views.Build(id)
	return reply, err
}

// openWait returns the wait that a decision is about.
func openWait(id string, s runstate.State, want string) (lattice.Wait, error) {
	var ids []string
	for _, w := range s.Waits {
		if w.ID == want || want == "" && len(s.Waits) == 1 {
			return w, nil
		}
		ids = append(ids, w.ID+" ("+w.Node+")")
	}
	if want == "" && len(ids) > 1 {
		return lattice.Wait{}, fault.BadInput("several_waits", "%s waits for several answers: %s", id, strings.Join(ids, ", ")).WithHint("--wait ID")
	}
	if want != "" {
		return lattice.Wait{}, fault.NotFound("wait_not_found", "%s has no open question %.64q; it is %s", id, want, s.Status).WithHint("lattice show %s", id)
	}
	return lattice.Wait{}, notWaiting(id, s)
}

func notWaiting(id string, s runstate.State) error {
	return fault.Failed("not_waiting", "%s does not wait for that; it is %s", id, s.Status).WithHint("lattice show %s", id)
}

// answerLate replies to a decision on a closed wait. typed holds the inputs if they were converted before.
func (ds *Decisions) answerLate(ctx context.Context, id string, d api.DecideRequest, typed json.RawMessage, refusal error) (api.DecideReply, error) {
	first, err := ds.Records.FindAnswer(id, d.WaitID)
	if err != nil {
		return api.DecideReply{}, err
	}
	if first == nil {
		return api.DecideReply{}, refusal
	}
	if first.Decision != d.Decision || d.Decision == lattice.Answer && !sameInputs(first.Inputs, d, typed) {
		p := fault.Busy("already_decided", "%s was %s by %s at %s; nothing changed", id, verdicts[first.Decision], first.By, first.At).WithHint("lattice show %s", id)
		p.Fault.Retryable = false
		return api.DecideReply{}, p
	}
	// A person repeats an approval whose run was cut off: the run continues.
	return ds.driveOn(ctx, id, d, api.DecideReply{WaitID: first.WaitID, Duplicate: true, By: first.By, At: first.At})
}

var verdicts = map[lattice.Decision]string{lattice.Approve: "approved already", lattice.Reject: "rejected already", lattice.Answer: "answered already"}

// sameInputs reports whether an answer equals the recorded one. The types of the wait are not known any more, so that text is
// converted to each type in turn.
func sameInputs(recorded json.RawMessage, d api.DecideRequest, typed json.RawMessage) bool {
	var before, now map[string]any
	if json.Unmarshal(recorded, &before) != nil {
		return false
	}
	if typed != nil {
		return json.Unmarshal(typed, &now) == nil && reflect.DeepEqual(before, now)
	}
	if len(d.Typed) > 0 && json.Unmarshal(d.Typed, &now) != nil || len(now)+len(d.Inputs) != len(before) {
		return false
	}
	for name, value := range now {
		if was, ok := before[name]; !ok || !reflect.DeepEqual(was, value) {
			return false
		}
	}
	for name, text := range d.Inputs {
		was, ok := before[name]
		if !ok || !slices.ContainsFunc(kinds, func(kind string) bool {
			v, ok := parseText(text, kind)
			return ok && sameValue(v, was)
		}) {
			return false
		}
	}
	return true
}

// kinds are the types to which text is converted.
var kinds = []string{"string", "boolean", "integer", "number", "map", "array", "array<string>"}

func sameValue(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
