package scribe

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Show writes and edits the comments of a thread so that they show its runs, and the intents that wait for people.
func (s *Scribe) Show(ctx context.Context, t thread.Thread) error {
	runs, err := thread.FindRuns(ctx, s.Runs, s.Facts, t, thread.MaxShown)
	if err != nil {
		return err
	}
	posts, err := thread.ReadPosts(s.Facts, t)
	if err != nil {
		return err
	}
	w := &writer{Scribe: s, Thread: t, posts: posts}
	s.woken.setAwaited(t, "")
	lacks, offering := "", error(nil)
	if len(runs) > 0 {
		lacks, offering = w.offerPlan(ctx, runs[0])
	}
	gated, err := s.Runs.GatedIntents(ctx, t.String())
	if err != nil || len(runs) == 0 && len(gated) == 0 && len(posts) == 0 {
		return errors.Join(err, offering)
	}
	if w.client, err = s.Hosts[t.Host].Client(); err != nil {
		return err
	}
	if len(runs) > 0 {
		if err := w.showStatus(ctx, runs[0], gated); err != nil {
			return err
		}
	}
	open := map[string]bool{}
	for _, r := range runs {
		if err := w.askPeople(ctx, r, open); err != nil {
			return err
		}
	}
	for _, q := range thread.ListRequests(nil, gated) {
		if err := w.askAbout(ctx, q, open); err != nil {
			return err
		}
	}
	for _, r := range slices.Backward(runs) { // one may have ended when the next one had begun
		answer, note := answerOf(r), ""
		if r.RunID == runs[0].RunID {
			note = lacks
		}
		if answer == "" || w.posts[offerPosts+r.RunID].Intent != "" || r.RunID == runs[0].RunID && offering != nil {
			continue
		}
		if err := w.putPost(ctx, thread.Post{Key: answerPosts + r.RunID}, presence.Answer(r.RunID, answer, note)); err != nil {
			return err
		}
	}
	return errors.Join(w.settleQuestions(ctx, open), offering)
}

// offerPlan offers the plan of a run, once. An intent that asks takes the place of the answer. It returns the name of a missing setting.
func (w *writer) offerPlan(ctx context.Context, newest api.RunView) (lacks string, err error) {
	key := offerPosts + newest.RunID
	if thread.PlanOf(newest) == "" || w.posts[key].Settled {
		return "", nil
	}
	s, err := w.Offer(ctx, w.Thread, newest)
	if refused := fault.As(err); refused != nil && !refused.Retryable {
		return refused.Message, nil
	}
	if err != nil {
		return "", err
	}
	offered := thread.Post{Key: key, Settled: true}
	if s.Decision == lattice.Ask {
		offered.Intent = s.ID
	}
	return "", w.recordPost(ctx, offered)
}

// askPeople writes the questions of a run, unless it asks them in another thread, and adds their keys to open. A wait for a review
// has no comment: the pull request asks for it. The comments of the reviews before it are answered.
func (w *writer) askPeople(ctx context.Context, r api.RunView, open map[string]bool) error {
	_, asks, err := findThreads(w.Facts, r)
	if err != nil || !asks.Same(w.Thread) {
		return err
	}
	waits := false
	for _, q := range thread.ListRequests([]api.RunView{r}, nil) {
		if asked, ok := thread.AwaitsReview(q.Wait); ok && asked.Number == w.Number {
			waits = true
			if err := w.reply(ctx, r.RunID, &q.Wait, asked); err != nil {
				return err
			}
			w.woken.setAwaited(w.Thread, asked.Head)
			stuck, err := w.Settle(ctx, w.Thread)
			if err == nil && stuck != "" {
				err = w.putPost(ctx, thread.Post{Key: stuckPosts + q.Key()}, presence.Stuck(stuck, asked.Said))
			}
			if err != nil {
				return err
			}
			if err := w.showAssumptions(ctx, r.RunID, q.Wait, asked.Head); err != nil {
				return err
			}
			continue
		}
		if err := w.askAbout(ctx, q, open); err != nil {
			return err
		}
	}
	if !waits {
		return w.reply(ctx, r.RunID, nil, thread.Awaited{})
	}
	return nil
}

// askAbout writes the question about a request, and adds its key to open.
func (w *writer) askAbout(ctx context.Context, q thread.Request, open map[string]bool) error {
	open[q.Key()] = true
	body, prompt := q.Question()
	return w.putPost(ctx, thread.Post{Key: q.Key(), Prompt: prompt}, body)
}

// answerOf returns the text that a run results in for an issue.
func answerOf(v api.RunView) string {
	var out struct {
		Answer string `json:"answer"`
	}
	if v.Status != lattice.Succeeded || json.Unmarshal(v.Outputs, &out) != nil {
		return ""
	}
	return out.Answer
}

// settleQuestions edits the comments of questions that are not open any more.
func (w *writer) settleQuestions(ctx context.Context, open map[string]bool) error {
	for key, p := range w.posts {
		rest, isQuestion := strings.CutPrefix(key, thread.WaitPosts)
		if !isQuestion || open[key] || p.Settled || p.Comment == 0 {
			continue
		}
		run, _, _ := strings.Cut(rest, ":")
		if _, err := w.client.EditComment(ctx, w.Repo, p.Comment, w.Marker(key).Add(presence.Settled(run, p.Prompt))); err != nil && !forge.IsNotFound(err) {
			return err
		}
		p.Settled = true
		if err := w.recordPost(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
