package dialogue

import (
	"context"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// handleTick carries out the command of a box that a person ticked in a question. Code hosts let many people edit a comment.
// So the text before must be exactly the question that lattice asks about an open wait, and the edit must tick one box and
// change nothing else.
func (d *Dialogue) handleTick(ctx context.Context, host string, e hook.Delivery) (string, error) {
	client, self, err := d.connect(ctx, host)
	if err != nil {
		return settleError(err)
	}
	c, ticked := comment.Ticked(e.Was, e.Text)
	switch {
	case e.Sender.ID == self.ID || e.Author.ID != self.ID && !ticked:
		return "nothing to do", nil
	case e.Author.ID != self.ID:
		return "refused: lattice did not write the comment with the box", nil
	case e.Sender.ID == 0 || e.Sender.Bot:
		return "refused: the editor is a bot", nil
	}
	t := thread.Thread{Host: host, Repo: e.Repo, Number: e.Number}
	q, asks, err := d.isQuestion(ctx, t, e.Was)
	if err != nil {
		return "", err
	}
	switch {
	case !asks:
		return "refused: the edited text is not an open question of lattice", nil
	case !ticked:
		return "refused: the edit did more than tick a box", nil
	}
	now, err := client.Comment(ctx, e.Repo, e.Item) // the delivery may be late, and the tick taken back
	switch {
	case forge.IsNotFound(err):
		return "refused: the comment was deleted", nil
	case err != nil:
		return settleError(err)
	case unixLines(now.Body) != unixLines(e.Text):
		return "refused: the comment was edited", nil
	}
	fork, err := d.isForeign(ctx, client, host, e)
	if err != nil {
		return settleError(err)
	}
	source := gather.Source{Thread: t, Client: client, Comment: e.Item, Left: &gather.LeftOut{}}
	outcome, err := d.carryOut(ctx, asked{Command: c, Source: source, client: client, person: e.Sender, fork: fork, box: q.Digest, ticked: e.Updated})
	if err != nil {
		return settleError(err)
	}
	return outcome, nil
}

// unixLines returns a text with the ends of lines of Unix; the editors of code hosts write those of Windows.
func unixLines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// isQuestion returns the request about which a comment with this text asks in a thread.
func (d *Dialogue) isQuestion(ctx context.Context, t thread.Thread, text string) (q thread.Request, ok bool, err error) {
	runs, err := thread.FindRuns(ctx, d.Runs, d.Facts, t, thread.MaxShown)
	if err != nil {
		return q, false, err
	}
	gated, err := d.Runs.GatedIntents(ctx, t.String())
	if err != nil {
		return q, false, err
	}
	for _, q := range thread.ListRequests(runs, gated) {
		spelled, err := d.listSpellings(t, q)
		if err != nil {
			return q, false, err
		}
		body, _ := q.Question()
		if slices.ContainsFunc(spelled, func(t thread.Thread) bool { return unixLines(t.Marker(q.Key()).Add(body)) == unixLines(text) }) {
			return q, true, nil
		}
	}
	return q, false, nil
}

// listSpellings returns a thread as the code host names it, and as the request names it, whose marker is in the question. Code hosts ignore
// the case of names.
func (d *Dialogue) listSpellings(t thread.Thread, q thread.Request) (all []thread.Thread, err error) {
	all = append(all, t)
	if q.Intent != nil {
		if s, ok := thread.Parse(q.Intent.Subject); ok && s.Same(t) {
			all = append(all, s)
		}
		return all, nil
	}
	pulls, err := d.Facts.Pulls(q.Run)
	for _, p := range pulls {
		if s := thread.OfPull(p); s.Same(t) {
			all = append(all, s)
		}
	}
	return all, err
}
