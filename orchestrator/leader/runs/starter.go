// Package runs starts runs and makes the decisions of people facts of them. Start with Starter; Decisions takes answers to
// waits, and Notes decisions about actions that no run waits for. Refusals are made before anything is recorded.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/core"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/prepare"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/memo"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Starter starts, continues and ends runs (api.Service).
type Starter struct {
	Home    home.Home
	Store   *store.Store
	Client  *sprites.Client
	Host    *host.Host // nil with a remote Sprites API
	Git     *worktree.Git
	Disk    func() string
	Network core.Network // for sprites of runs that do not say theirs
	// Server reads the server's layers of the policy.
	Server   func() ([]policy.Layer, error)
	Ledger   *govern.Ledger
	Records  *history.Records
	States   *history.States
	Views    *views.Views
	Drives   *drive.Drives
	Values   *drive.Values
	Models   *drive.ModelSet
	Preparer *prepare.Preparer
	Copies   *retention.Copies
	// Environment changes flows as proposals that were accepted say.
	Environment interface {
		Adjust(ctx context.Context, flow json.RawMessage, o *api.Options) (json.RawMessage, error)
	}

	linking sync.Mutex // held while a run is begun by an answer
	flows   memo.Memo[*compile.Flow]
	claims  claims
}

// RenewValues replaces the values of a run's variables, which are never stored.
func (rn *Starter) RenewValues(id string, v api.Values) error {
	rec, err := rn.Records.LoadBrief(id)
	if err == nil {
		rn.Values.Keep(id, rec.Kept.AgentEnv, v)
	}
	return err
}

// Drive continues an interrupted run. It leaves a run alone that is driven, waits or has ended. If the question of a run was
// answered, it continues the run that the answer began.
func (rn *Starter) Drive(ctx context.Context, id string, req api.DriveRequest) (api.RunView, error) {
	id, err := rn.Records.Resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := rn.RenewValues(id, req.Values); err != nil {
		return api.RunView{}, err
	}
	if next, err := rn.States.FindNext(id); err != nil || next != nil {
		if err != nil {
			return api.RunView{}, err
		}
		return rn.continueIn(ctx, id, *next, req.Values, req.Detach)
	}
	if err := rn.Drives.Drive(ctx, id); err != nil {
		return api.RunView{}, err
	}
	rn.Drives.Detach(id, req.Detach)
	return rn.Views.Build(id)
}

// Stop ends the drive of a run and waits for its end.
func (rn *Starter) Stop(ctx context.Context, id string) (api.RunView, error) {
	id, err := rn.Records.Resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	if done := rn.Drives.Stop(id); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return api.RunView{}, ctx.Err()
		}
	}
	return rn.Views.Build(id)
}

// Cancel ends a run for good. It changes nothing about a run that has ended.
func (rn *Starter) Cancel(ctx context.Context, id, by string) (api.RunView, error) {
	id, err := rn.Records.Resolve(id)
	if err != nil {
		return api.RunView{}, err
	}
	r, err := rn.Drives.LoadBegun(ctx, id)
	if err != nil {
		return api.RunView{}, err
	}
	if err := r.Runner.Cancel(ctx, by); err != nil && !errors.Is(err, engine.ErrStale) {
		return api.RunView{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	rn.Drives.Forget(id)
	return rn.Views.Build(id)
}

// exitOfRefusal gives a refusal its exit code.
func exitOfRefusal(err error) error {
	var refused *lattice.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	exit := protocol.ExitBadInput
	switch refused.Fault.Code {
	case "repository_not_found", "not_a_repository", "ref_not_found", "copy_not_found":
		exit = protocol.ExitNotFound
	case "repository_unreachable":
		exit = protocol.ExitNetwork
	}
	return &fault.Error{Fault: refused.Fault, Exit: exit}
}
