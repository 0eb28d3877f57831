package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Client is the part of forge.Client that polling uses.
type Client interface {
	CommentsSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Comment, error)
	IssuesSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Issue, error)
	Pull(ctx context.Context, p forge.Path, number int64) (forge.PullRequest, error)
	Reviews(ctx context.Context, p forge.Path, number int64) ([]forge.Review, error)
}

// overlap is asked for again at each poll, because a code host may list a comment late.
const overlap = time.Minute

// polled is the body of an entry that says how far the comments of a repository were read.
type polled struct {
	Until time.Time `json:"until"` // when the last of them was changed
}

// Poll asks a code host for comments and reviews, and keeps each like a delivery. Those from before the first poll are not read.
func (in *Inbox) Poll(ctx context.Context, name string) error {
	client, err := in.hosts[name].Client()
	if err != nil {
		return err
	}
	for _, p := range in.hosts[name].Repositories {
		if err := in.pollRepository(ctx, name, client, p); err != nil {
			return fmt.Errorf("ask for the comments of %s: %w", p, err)
		}
	}
	return nil
}

func (in *Inbox) pollRepository(ctx context.Context, name string, client Client, p forge.Path) error {
	subject := "forge-polled:" + name + ":" + p.String()
	first := polled{Until: time.Now().UTC()}
	entry, err := in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subject, Key: subject}, first, store.Any)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(entry.Body, &first); err != nil {
		return fmt.Errorf("read audit entry %d: %w", entry.Seq, err)
	}
	last, _, err := in.facts.Store.LastAudit(subject)
	if err != nil {
		return problem.StoreProblem(err)
	}
	var until polled
	if err := json.Unmarshal(last.Body, &until); err != nil {
		return fmt.Errorf("read audit entry %d: %w", last.Seq, err)
	}
	comments, err := client.CommentsSince(ctx, p, until.Until.Add(-overlap))
	if err != nil {
		return err
	}
	newest := until.Until
	for _, c := range comments {
		if c.Number == 0 || c.Created.Before(first.Until.Add(-overlap)) {
			continue
		}
		e := hook.Event{Kind: hook.Comment, Name: hook.Polled, Action: hook.Created, Repo: p, Sender: c.Author, Author: c.Author, Number: c.Number, Text: c.Body, Item: c.ID, Created: c.Created, Updated: c.Updated}
		if c.Edited() {
			e.Action = hook.Edited
		}
		e.BoundText()
		if err := in.Add(ctx, name, hook.Delivery{ID: fmt.Sprintf("poll-%d-%d", c.ID, c.Updated.Unix()), Event: e}); err != nil {
			return err
		}
		if c.Updated.After(newest) {
			newest = c.Updated
		}
	}
	changed, err := in.pollReviews(ctx, name, client, p, first.Until.Add(-overlap), until.Until.Add(-overlap))
	if err != nil {
		return err
	}
	if changed.After(newest) {
		newest = changed
	}
	if newest.Equal(until.Until) {
		return nil
	}
	_, err = in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subject}, polled{newest}, store.Any)
	return err
}

// pollReviews keeps the reviews of the pull requests that changed since an instant, and returns when the last of them changed. Those
// from before first are not read.
func (in *Inbox) pollReviews(ctx context.Context, name string, client Client, p forge.Path, first, since time.Time) (newest time.Time, err error) {
	issues, err := client.IssuesSince(ctx, p, since)
	if err != nil {
		return newest, err
	}
	for _, i := range issues {
		if i.Updated.After(newest) {
			newest = i.Updated
		}
		if !i.Pull {
			continue
		}
		reviews, err := client.Reviews(ctx, p, i.Number)
		if err != nil {
			return newest, err
		}
		reviews = slices.DeleteFunc(reviews, func(r forge.Review) bool { return r.Submitted.Before(first) || r.Submitted.Before(since) })
		if len(reviews) == 0 {
			continue
		}
		pull, err := client.Pull(ctx, p, i.Number)
		if err != nil {
			return newest, err
		}
		for _, r := range reviews {
			e := hook.Event{Kind: hook.Review, Name: hook.Polled, Action: hook.Submitted, Repo: p, Sender: r.Author, Author: r.Author, Number: i.Number, Pull: true, Fork: pull.FromFork(),
				Text: r.Body, State: string(r.State), Item: r.ID, Created: r.Submitted, Updated: r.Submitted, Head: pull.Head.SHA, Reviewed: r.CommitID}
			e.BoundText()
			if err := in.Add(ctx, name, hook.Delivery{ID: fmt.Sprintf("poll-review-%d", r.ID), Event: e}); err != nil {
				return newest, err
			}
		}
	}
	return newest, nil
}

// pollDue polls the code host if it is due, and returns the time until it is due again; maxDelay if it is not polled.
func (in *Inbox) pollDue(ctx context.Context, name string, next map[string]time.Time) time.Duration {
	host := in.hosts[name]
	if host.Poll == 0 {
		return maxDelay
	}
	if wait := time.Until(next[name]); wait > 0 {
		return wait
	}
	if err := in.Poll(ctx, name); err != nil && ctx.Err() == nil {
		in.log.Warn().Err(err).Str("forge", name).Msg("ask a code host for comments")
	}
	next[name] = time.Now().Add(host.Poll)
	return host.Poll
}
