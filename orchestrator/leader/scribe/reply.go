package scribe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// replyPosts begins the keys of replies to reviews.
const replyPosts = "reply:"

// reply answers the comments of the reviews that a run has worked on: each in its thread, or the whole review in one comment if it has none.
// The last review is answered when the run waits for the next one; wait is nil if it does not wait. A push is the answer to checks.
func (w *writer) reply(ctx context.Context, run string, wait *lattice.Wait, asked thread.Awaited) error {
	outcomes, err := govern.ReadBodies[thread.Settled](w.Facts, w.Outcomes())
	if err != nil {
		return err
	}
	outcomes = slices.DeleteFunc(outcomes, func(s thread.Settled) bool { return s.Run != run || s.Verdict == "" })
	for i, s := range outcomes {
		now := asked
		if i+1 < len(outcomes) { // people may decide before it is answered
			now = thread.Awaited{Head: outcomes[i+1].Head}
		} else if wait == nil || wait.ID == s.Wait {
			break
		}
		if s.Verdict != thread.VerdictChanges || s.Checks {
			continue
		}
		if err := w.replyToReview(ctx, replyPosts+run+":"+s.Wait, s, now); err != nil {
			return err
		}
	}
	return nil
}

// replyToReview answers the comments of a decision. now has the commit that the run pushed, and the agent's words.
func (w *writer) replyToReview(ctx context.Context, key string, s thread.Settled, now thread.Awaited) error {
	answer := func(t presence.Thread) string { return presence.Reply(now.Head, now.Head != s.Head, now.Said, t) }
	if len(s.Comments) == 0 && w.posts[key].Comment == 0 {
		return w.putPost(ctx, thread.Post{Key: key}, answer(presence.NoThread))
	}
	var all []forge.ReviewComment
	for _, id := range s.Comments {
		each := fmt.Sprintf("%s:%d", key, id)
		if p := w.posts[each]; p.Comment != 0 || p.Settled {
			continue
		}
		if all == nil {
			var err error
			if all, err = w.client.ReviewComments(ctx, w.Repo, w.Number); err != nil {
				return err
			}
		}
		if err := w.replyTo(ctx, each, id, all, now.Head != s.Head, answer); err != nil {
			return err
		}
	}
	return nil
}

// replyTo answers a comment of a review once, and first resolves its thread if the push changed its lines. A comment that is gone
// gets no answer.
func (w *writer) replyTo(ctx context.Context, key string, id int64, all []forge.ReviewComment, pushed bool, answer func(presence.Thread) string) error {
	i := slices.IndexFunc(all, func(c forge.ReviewComment) bool { return c.ID == id })
	if i < 0 {
		return w.recordPost(ctx, thread.Post{Key: key, Settled: true})
	}
	found, err := w.findOwn(ctx, thread.Post{Key: key}, all)
	if err != nil {
		return err
	}
	if found != 0 {
		return w.recordPost(ctx, thread.Post{Key: key, Comment: found})
	}
	state := presence.Open
	if pushed {
		if state, err = w.resolveThread(ctx, id); err != nil {
			return err
		}
	}
	c, err := w.client.Reply(ctx, w.Repo, w.Number, all[i], w.Marker(key).Add(answer(state)))
	if err != nil {
		return err
	}
	return w.recordPost(ctx, thread.Post{Key: key, Comment: c.ID})
}

// resolveThread resolves the thread of a comment if its lines have changed and the code host can do it. It returns the state of the thread as
// the code host tells it.
func (w *writer) resolveThread(ctx context.Context, comment int64) (presence.Thread, error) {
	resolver, ok := w.client.(forge.Resolver)
	if !ok {
		return presence.Open, nil
	}
	resolved, err := resolver.ResolveOutdated(ctx, w.Repo, w.Number, comment)
	if refused, ok := errors.AsType[*forge.Problem](err); ok && refused.Final() {
		w.Logger.Warn().Err(err).Stringer("thread", w.Thread).Msg("resolve the thread of a review")
		return presence.Open, nil
	}
	if resolved {
		return presence.Resolved, err
	}
	return presence.Open, err
}
