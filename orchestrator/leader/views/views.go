// Package views describes runs to clients: lists, single runs, and runs as they change; and it lists sprites. Start with Views. It changes no run.
package views

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Views shows runs to clients (api.Service).
type Views struct {
	Store    *store.Store
	Records  *history.Records
	States   *history.States
	Drives   driveStatus
	Watchers *drive.Watchers
	Values   *drive.Values
	Copies   interface {
		List(ctx context.Context, v api.RunView) []string
	}
	Registry interface {
		Products(ctx context.Context, q api.ProductQuery) ([]artifact.Product, error)
	}
	Fleet interface {
		List(ctx context.Context, prefix string) ([]sprites.Sprite, error)
	}
	// BudgetsOf lists the budgets from which a run takes.
	BudgetsOf func(ctx context.Context, run string) ([]api.BudgetView, error)
	// SpentOf returns the amounts that were taken from budgets. Nil leaves them out.
	SpentOf func(ctx context.Context, scopes ...budget.Scope) ([]budget.Amount, error)

	feeds feeds
}

// driveStatus tells whether runs are driven.
type driveStatus interface {
	IsDriven(id string) (driven bool, stopped error)
	GoesOn(id string) bool
	IsClosing() bool
}

// Build returns the view of a run.
func (vw *Views) Build(id string) (api.RunView, error) {
	rec, err := vw.Records.LoadBrief(id)
	if err != nil {
		return api.RunView{}, err
	}
	at, begun, err := vw.States.Read(id)
	if err != nil {
		return api.RunView{}, err
	}
	v := api.RunView{
		RunID: id, Flow: rec.Kept.FlowName, WorkItem: rec.WorkItem, IntentID: rec.Kept.Intent, Status: lattice.Pending, Sprite: rec.Sprite,
		Repo: rec.Kept.Repo, CreatedAt: rec.Created, UpdatedAt: rec.Created, AgentEnv: rec.Kept.AgentEnv,
		ResumedFrom: rec.Kept.ResumedFrom, MissingEnv: vw.Values.ListMissing(id, rec.Kept.AgentEnv),
	}
	if f := rec.Kept.Fork; f != nil {
		v.ForkedFrom = fmt.Sprintf("%s at %s#%d", f.From, f.Moment.Name(), f.Moment.Visit)
	}
	if begun {
		v.UpdatedAt, v.LastSeq = at.At, at.Seq
		if err := fillView(&v, at.State); err != nil {
			return api.RunView{}, err
		}
	}
	if v.ContinuedIn != "" {
		if _, err := vw.Store.Record(v.ContinuedIn); errors.Is(err, store.ErrNotFound) {
			v.Note = v.ContinuedIn + " has not begun yet; lattice resume begins it"
		}
	}
	var stopped error
	v.Driving, stopped = vw.Drives.IsDriven(id)
	v.Stopped = !v.Driving && errors.Is(stopped, context.Canceled) && !v.Status.Ended()
	if stopped != nil && !errors.Is(stopped, context.Canceled) {
		v.Note = stopped.Error()
		if hint := sprites.Remedy(stopped); hint != "" && !sprites.Uncertain(stopped) {
			v.Note += "; " + hint
		}
		v.Problem = stopProblem(id, stopped)
	}
	if !v.Driving && v.Note == "" && (v.Status == lattice.Running || v.Status == lattice.Pending) {
		v.Note = "no process drives it; lattice resume continues it"
	}
	return v, nil
}

// Run shows one run.
func (vw *Views) Run(ctx context.Context, id string) (api.RunView, error) {
	id, err := vw.Records.Resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	v, err := vw.Build(id)
	if err != nil {
		return v, err
	}
	v.Copies = vw.Copies.List(ctx, v)
	if err := vw.addSpent(ctx, &v); err != nil {
		return v, err
	}
	if v.Budgets, err = vw.BudgetsOf(ctx, id); err != nil {
		return v, err
	}
	if v.StartedWith, err = vw.startedWith(id, v.Epoch); err != nil {
		return v, err
	}
	open, err := vw.Store.WithOpenActions()
	if err != nil {
		return v, err
	}
	v.OpenActions = slices.Contains(open, id)
	products, err := vw.Registry.Products(ctx, api.ProductQuery{Run: id})
	at := api.Root + "/runs/" + id
	v.Record = &api.Record{SpriteName: v.Sprite, Mode: "exec_ws", StreamRefs: []string{at + "/watch", at + "/entries", at + "/log"}, Artifacts: products}
	return v, err
}

// Program returns the ExecIR document that a run executes.
func (vw *Views) Program(_ context.Context, id string) (json.RawMessage, error) {
	id, err := vw.Records.Resolve(id)
	if err != nil {
		return nil, err
	}
	rec, err := vw.Records.Load(id)
	return rec.Program, err
}

// Sprites lists the sprites.
func (vw *Views) Sprites(ctx context.Context) ([]sprites.Sprite, error) {
	list, err := vw.Fleet.List(ctx, "")
	if err != nil {
		return nil, problem.SpriteProblem(err)
	}
	return list, nil
}

// Runs lists runs, newest first.
func (vw *Views) Runs(ctx context.Context, which api.RunList) ([]api.RunView, error) {
	if which.Before != "" {
		before, err := vw.Records.Resolve(which.Before)
		if err != nil {
			return nil, err
		}
		which.Before = before
	}
	listed, err := vw.Records.List(which)
	if err != nil {
		return nil, err
	}
	views := make([]api.RunView, 0, len(listed))
	for _, r := range listed {
		v, err := vw.Build(r.ID)
		if err != nil {
			return nil, err
		}
		if which.Open && v.Status.Ended() || which.Flow != "" && v.Flow != which.Flow {
			continue
		}
		if views = append(views, v); which.Limit > 0 && len(views) == which.Limit {
			break
		}
	}
	all := make([]*api.RunView, len(views))
	for i := range views {
		all[i] = &views[i]
	}
	return views, vw.addSpent(ctx, all...)
}

// addSpent adds to runs the amounts that they took.
func (vw *Views) addSpent(ctx context.Context, runs ...*api.RunView) error {
	scopes := make([]budget.Scope, len(runs))
	for i, v := range runs {
		scopes[i] = budget.Run.Of(v.RunID)
	}
	if vw.SpentOf == nil {
		return nil
	}
	spent, err := vw.SpentOf(ctx, scopes...)
	for i := range spent {
		runs[i].Spent = spent[i]
	}
	return err
}

// Top returns the open runs and the sprites at this moment.
func (vw *Views) Top(ctx context.Context) (s api.Snapshot, err error) {
	s.At = time.Now()
	spent, err := vw.SpentOf(ctx, budget.DayOf(s.At))
	if err != nil {
		return s, err
	}
	s.Today = spent[0]
	if s.Runs, err = vw.Runs(ctx, api.RunList{Open: true}); err != nil {
		return s, err
	}
	s.Sprites, err = vw.Sprites(ctx)
	return s, err
}

// Watch yields entries and views until the run is not driven, and does not wait for a time at which it is.
func (vw *Views) Watch(ctx context.Context, id string, after lattice.Seq, yield func(api.WatchLine) error) error {
	return vw.watch(ctx, id, after, vw.Records.Entries, yield)
}

// WatchOutline is Watch with the entries of Outline.
func (vw *Views) WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(api.WatchLine) error) error {
	return vw.watch(ctx, id, after, vw.Records.Outline, yield)
}

// viewPause is the least time between two views of a run that goes on, for one reader: a view costs more than many entries.
const viewPause = 100 * time.Millisecond

func (vw *Views) watch(ctx context.Context, id string, after lattice.Seq, read reader, yield func(api.WatchLine) error) error {
	id, err := vw.Records.Resolve(id)
	if err != nil {
		return err
	}
	var viewed time.Time
	for {
		changed := vw.Watchers.Wait(id) // first: a change after it is not missed
		driven := vw.Drives.GoesOn(id)
		closing := vw.Drives.IsClosing() // after GoesOn: closing is set before the drives end
		if err := read(ctx, id, after, func(e lattice.Entry) error {
			after = e.Seq
			return yield(api.WatchLine{Entry: &e})
		}); err != nil {
			return err
		}
		if closing {
			return nil // without Done: another process leads next
		}
		if driven {
			more, err := awaitView(ctx, changed, viewed)
			if err != nil {
				return err
			}
			if more {
				continue
			}
		}
		viewed = time.Now()
		v, err := vw.buildWithCopies(ctx, id, driven)
		if err != nil {
			return err
		}
		if err := yield(api.WatchLine{View: &v, Done: !driven}); err != nil || !driven {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitView waits until the view after the one at viewed is due. It returns early with more if the run has changed: its entries go
// before its view.
func awaitView(ctx context.Context, changed <-chan struct{}, viewed time.Time) (more bool, err error) {
	pause := viewPause - time.Since(viewed)
	if pause <= 0 {
		return false, nil
	}
	select {
	case <-changed:
		return true, nil
	case <-time.After(pause):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// buildWithCopies returns the view of a run, with the copies of its sprite unless the run goes on.
func (vw *Views) buildWithCopies(ctx context.Context, id string, driven bool) (api.RunView, error) {
	v, err := vw.Build(id)
	if err == nil && !driven {
		v.Copies = vw.Copies.List(ctx, v)
	}
	return v, err
}

type reader func(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error

// startedWith returns the options with which a run was started, and the models that it asks now.
func (vw *Views) startedWith(id string, epoch int) (*api.StartedWith, error) {
	rec, err := vw.Records.LoadBrief(id)
	if err != nil {
		return nil, err
	}
	o := rec.Kept.Options
	if o.Models != nil && epoch > 0 {
		h, err := vw.Store.Load(id)
		if err != nil {
			return nil, err
		}
		if o.Models, err = drive.LastModels(o.Models, h.Facts); err != nil {
			return nil, err
		}
	}
	return StartedBy(o), nil
}

// fillView fills a view from the run's state.
func fillView(v *api.RunView, s runstate.State) error {
	v.Status, v.Epoch, v.Steps, v.Node, v.Waits = s.Status, s.Epoch, s.Steps, s.Node, s.Waits
	if len(s.Pending) > 0 {
		v.Doing = string(s.Pending[0].Kind)
	}
	if s.Next != nil {
		v.ContinuedIn = s.Next.RunID
	}
	v.Models = modelUse(s)
	if s.Output != nil {
		out, err := expr.Marshal(s.Output)
		if err != nil {
			return fmt.Errorf("encode outputs: %w", err)
		}
		v.Outputs = out
	}
	if f := s.Failure; f != nil {
		v.Error = &api.RunError{Kind: f.Kind, Message: f.Message, Node: f.Node, Attempt: f.Attempt, Data: f.Data}
	}
	return nil
}

// modelUse returns the use of models by a run, nil if it asked none.
func modelUse(s runstate.State) *api.ModelUse {
	if s.Models.Calls == 0 {
		return nil
	}
	use := roundCost(s.Models)
	use.Nodes = map[string]api.ModelUse{}
	for node, spent := range s.ModelsBy {
		use.Nodes[node] = roundCost(spent)
	}
	return &use
}

// roundCost returns the use with its cost rounded to the nanodollar, because sums of prices are not more precise.
func roundCost(s runstate.Spent) api.ModelUse {
	s.CostUSD = math.Round(s.CostUSD*1e9) / 1e9
	return api.ModelUse{Calls: s.Calls, ModelUsage: s.ModelUsage}
}

// StartedBy describes the options with which a run is started.
func StartedBy(o api.Options) *api.StartedWith {
	s := api.StartedWith{Limits: o.Limits, MinIsolation: o.MinIsolation, From: o.From, Siblings: o.Siblings, Copies: o.Copies, Tools: o.Tools, Skills: o.Skills, Spritekit: o.Spritekit, AgentEnv: o.AgentEnv, Environment: o.Environment, Domains: o.Domains, Trial: o.Trial}
	if o.OwnSprite {
		s.Network, s.HostPorts, s.Image = o.Network, o.HostPorts, cmp.Or(o.Image, sprites.NoImage)
	}
	if o.Models != nil {
		s.Models, s.ModelKeys = o.Models.Digests(), o.Models.KeyEnvs()
	}
	return &s
}

// stopProblem returns the reason why a drive stopped, with a remedy; nil if there is no remedy. A resumed run continues where it
// was, and first finds out about uncertain outcomes.
func stopProblem(run string, err error) *fault.Error {
	var p *fault.Error
	if errors.As(problem.StoreProblem(err), &p) {
		return p
	}
	if !errors.As(problem.SpriteProblem(err), &p) {
		return nil
	}
	goOn := "lattice resume " + run
	if p.Fault.Hint == "" || sprites.Uncertain(err) {
		p.Fault.Hint = goOn
	} else {
		p.Fault.Hint += ", then: " + goOn
	}
	return p
}
