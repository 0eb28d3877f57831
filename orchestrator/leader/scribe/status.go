package scribe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// labelPost is the key of the record of the label that was set last, and checkPosts begin those of checks. Neither are comments.
const (
	labelPost  = "label"
	checkPosts = "check:"
)

// showStatus writes or edits the status comment, the label and the check. After the end of a run the first two are written once, and
// again when other requests to people change.
func (w *writer) showStatus(ctx context.Context, newest api.RunView, gated []intent.State) error {
	if err := w.showCheck(ctx, newest); err != nil {
		return err
	}
	final := ""
	if newest.Status.Ended() {
		final = newest.RunID + " " + string(newest.Status)
		for _, s := range gated {
			final += " " + s.Digest
		}
	}
	if w.posts[statusPost].Final == "" || w.posts[statusPost].Final != final {
		shown, err := thread.DescribeRun(ctx, w.Runs, newest)
		if err != nil {
			return err
		}
		for _, q := range thread.ListRequests(nil, gated) {
			shown.Asks = append(shown.Asks, q.Proposal())
		}
		if err := w.putPost(ctx, thread.Post{Key: statusPost, Final: final}, presence.Status(shown)); err != nil {
			return err
		}
	}
	status := newest.Status
	if len(gated) > 0 && status.Ended() {
		status = lattice.Waiting
	}
	return w.showLabel(ctx, status)
}

// showLabel shows a status as a label, if the settings ask for it. Labels decide nothing: one that a person sets
// stays until the state changes, and is then replaced. Labels without the prefix of lattice are not touched.
func (w *writer) showLabel(ctx context.Context, status lattice.RunStatus) error {
	want := presence.Label(status)
	if !w.Hosts[w.Host].Labels || w.posts[labelPost].Final == want {
		return nil
	}
	issue, err := w.client.Issue(ctx, w.Repo, w.Number)
	if err != nil {
		return err
	}
	for _, name := range issue.Labels {
		if strings.HasPrefix(name, presence.LabelPrefix) && name != want {
			if err := w.client.RemoveLabel(ctx, w.Repo, w.Number, name); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(issue.Labels, want) {
		if err := w.client.AddLabels(ctx, w.Repo, w.Number, []string{want}); err != nil {
			return err
		}
	}
	return w.recordPost(ctx, thread.Post{Key: labelPost, Final: want})
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
		if p.Head == "" || !thread.OfPull(p).Same(w.Thread) {
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
	return w.recordPost(ctx, thread.Post{Key: checkPosts + sha, Final: c.Summary, Settled: ok || last})
}
