package dialogue

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Checks tell both ways: lattice shows the state of a run as one here, and an approval of a commit whose checks fail becomes a request for
// changes, so that a run ends when its pull request is green and approved.

// checkPosts begin the records of checks, which are no comments.
const checkPosts = "check:"

// showCheck shows the state of a run as a check at the commit that it pushed last, if the thread is its pull request. If the code
// host refuses the check of a commit, it is not asked again about that one.
func (w *writer) showCheck(ctx context.Context, r api.RunView) error {
	pulls, err := w.Facts.Pulls(r.RunID)
	if err != nil {
		return err
	}
	for _, p := range pulls {
		if p.Head == "" || !(Thread{p.Forge, p.Repo, p.Number}).same(w.Thread) {
			continue
		}
		c := forge.Check{Name: "lattice/" + r.Flow, State: checkState(r.Status), Summary: fmt.Sprintf("the run %s %s", r.RunID, presence.Verb(r.Status))}
		key := checkPosts + p.Head
		if known := w.posts[key]; known.Settled || known.Final == c.Summary {
			continue
		}
		err := w.client.SetCheck(ctx, w.Repo, p.Head, c)
		refused, ok := errors.AsType[*forge.Problem](err)
		if err != nil && (!ok || !refused.Final()) {
			return err
		}
		if ok {
			w.Logger.Warn().Err(err).Stringer("thread", w.Thread).Msg("show the state of a run as a check")
		}
		if err := w.record(ctx, post{Post: key, Final: c.Summary, Settled: ok}); err != nil {
			return err
		}
	}
	return nil
}

func checkState(s lattice.RunStatus) forge.CheckState {
	switch s {
	case lattice.Succeeded:
		return forge.CheckSuccess
	case lattice.Failed:
		return forge.CheckFailure
	case lattice.Canceled:
		return forge.CheckError
	}
	return forge.CheckPending
}
