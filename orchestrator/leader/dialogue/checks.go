package dialogue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/spritekit/text"
)

// Checks tell both ways: lattice shows the state of a run as one here, and checks of the CI that fail become a request for changes, with an
// approval or without one, so that a run ends when its pull request is green and approved.

// checkPosts begin the records of checks, which are no comments.
const checkPosts = "check:"

// describeRed returns which checks of the CI fail at a commit, and whether all have ended. A code host that does not let the account read
// them tells of none.
func describeRed(ctx context.Context, client Client, p forge.Path, sha string) (red string, ended bool, err error) {
	all, err := client.Checks(ctx, p, sha)
	if refused, ok := errors.AsType[*forge.Problem](err); ok && refused.Final() {
		return "", true, nil
	}
	failed, ended := forge.FailedChecks(all)
	for _, c := range failed {
		red += strings.TrimSpace(fmt.Sprintf("The check %s of the CI fails at %.12s. %s %s", text.Line(c.Name), sha, text.Line(c.Summary), text.Line(c.URL))) + "\n"
	}
	return red, ended, err
}

// showCheck shows the state of a run as a check at the commit that it pushed last, if the thread is its pull request. If the code
// host refuses the check of a commit, it is not asked again about that one.
func (w *writer) showCheck(ctx context.Context, r api.RunView) error {
	pulls, err := w.Facts.Pulls(r.RunID)
	if err != nil {
		return err
	}
	current := map[string]bool{}
	for _, p := range pulls {
		current[checkPosts+p.Head] = true
		if p.Head == "" || !(Thread{p.Forge, p.Repo, p.Number}).same(w.Thread) {
			continue
		}
		c := forge.Check{Name: forge.CheckPrefix + r.Flow, State: presence.Check(r.Status), Summary: fmt.Sprintf("the run %s %s", r.RunID, presence.Verb(r.Status))}
		key := checkPosts + p.Head
		if known := w.posts[key]; known.Settled || known.Final == c.Summary {
			continue
		}
		if err := w.setCheck(ctx, p.Head, c, false); err != nil {
			return err
		}
	}
	for key, known := range w.posts {
		sha, isCheck := strings.CutPrefix(key, checkPosts)
		if !isCheck || current[key] || known.Settled || !strings.HasPrefix(known.Final, "the run "+r.RunID+" ") {
			continue
		}
		c := forge.Check{Name: forge.CheckPrefix + r.Flow, State: forge.CheckError, Summary: "a newer commit took its place"}
		if err := w.setCheck(ctx, sha, c, true); err != nil {
			return err
		}
	}
	return nil
}

// setCheck shows a check at a commit. last says that it does not change any more.
func (w *writer) setCheck(ctx context.Context, sha string, c forge.Check, last bool) error {
	err := w.client.SetCheck(ctx, w.Repo, sha, c)
	refused, ok := errors.AsType[*forge.Problem](err)
	if err != nil && (!ok || !refused.Final()) {
		return err
	}
	if ok {
		w.Logger.Warn().Err(err).Stringer("thread", w.Thread).Msg("show the state of a run as a check")
	}
	return w.recordPost(ctx, post{Post: checkPosts + sha, Final: c.Summary, Settled: ok || last})
}
