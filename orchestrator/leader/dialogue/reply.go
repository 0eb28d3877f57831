package dialogue

import (
	"context"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// replyPosts begins the keys of replies to reviews.
const replyPosts = "reply:"

// reply answers the comments of the review that a run worked on before it waits for the next one: each in its thread, or the
// whole review in one comment if it has none.
func (w *writer) reply(ctx context.Context, run string, wait lattice.Wait, asked awaited) error {
	var outcomes []settled
	if err := readAll(w.Facts, outcomesOf(w.Thread), &outcomes); err != nil {
		return err
	}
	last, found := settled{}, false
	for _, s := range slices.Backward(outcomes) {
		if s.Run == run && s.Verdict != "" {
			last, found = s, s.Verdict == verdictChanges && s.Wait != wait.ID
			break
		}
	}
	if !found {
		return nil
	}
	key := replyPosts + run + ":" + last.Wait
	body := presence.Reply(asked.Head, asked.Head != last.Head, asked.Said)
	if len(last.Comments) == 0 {
		return w.put(ctx, post{Post: key}, body)
	}
	var all []forge.ReviewComment
	for _, id := range last.Comments {
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
		if err := w.replyTo(ctx, each, id, all, body); err != nil {
			return err
		}
	}
	return nil
}

// replyTo answers a comment of a review once. A comment that is gone gets no answer.
func (w *writer) replyTo(ctx context.Context, key string, id int64, all []forge.ReviewComment, body string) error {
	i := slices.IndexFunc(all, func(c forge.ReviewComment) bool { return c.ID == id })
	if i < 0 {
		return w.record(ctx, post{Post: key, Settled: true})
	}
	marker := forge.MarkerOf("post", w.Thread.String()+" "+key)
	if known, begun := w.posts[key]; begun {
		self, err := w.client.Self(ctx)
		if err != nil {
			return err
		}
		written, err := w.client.Comments(ctx, w.Repo, w.Number) // where there are no threads
		if err != nil {
			return err
		}
		for _, c := range all {
			written = append(written, c.Comment)
		}
		if c, found := forge.FindComment(written, self.ID, marker); found {
			return w.record(ctx, post{Post: key, Comment: c.ID})
		}
		if known.isFresh() {
			return errFresh
		}
	} else if err := w.record(ctx, post{Post: key}); err != nil {
		return err
	}
	c, err := w.client.Reply(ctx, w.Repo, w.Number, all[i], marker.Add(body))
	if err != nil {
		return err
	}
	return w.record(ctx, post{Post: key, Comment: c.ID})
}
