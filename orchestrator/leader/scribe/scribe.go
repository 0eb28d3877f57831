// Package scribe shows runs in the issues and pull requests to which they belong. Start with [Scribe.Follow], which shows each run as it
// changes, and [Scribe.Show]. It writes comments, labels and checks, and reads no commands; package dialogue does.
package scribe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Client is the part of forge.Client with which the scribe writes.
type Client interface {
	Self(ctx context.Context) (forge.User, error)
	Issue(ctx context.Context, p forge.Path, number int64) (forge.Issue, error)
	AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error
	RemoveLabel(ctx context.Context, p forge.Path, number int64, label string) error
	Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error)
	CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error)
	EditComment(ctx context.Context, p forge.Path, id int64, body string) (forge.Comment, error)
	SetCheck(ctx context.Context, p forge.Path, sha string, c forge.Check) error
	ReviewComments(ctx context.Context, p forge.Path, number int64) ([]forge.ReviewComment, error)
	CommentOnLine(ctx context.Context, p forge.Path, number int64, at forge.Line, body string) (forge.Comment, error)
	Reply(ctx context.Context, p forge.Path, number int64, to forge.ReviewComment, body string) (forge.Comment, error)
}

// Runs is the part of the leader that tells of runs and intents.
type Runs interface {
	thread.Runs
	Intents(ctx context.Context, before string, limit int) ([]intent.State, error)
	Updates(ctx context.Context, after lattice.Seq, yield func(api.RunView) error) error
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
}

// Host is a code host.
type Host struct {
	// Client returns the connection to the code host.
	Client func() (Client, error)
	// Labels shows the state of the newest run of a thread as a label.
	Labels bool
	// Poll is how often the checks of a pull request are looked at; 0 leaves it to webhooks, and looks rarely.
	Poll time.Duration
}

// Scribe shows the runs of a thread in comments: one with the state of the newest run, which it edits, one for each question,
// and one with the answer to an issue. It compares the comments that should be there with those that it wrote, so that
// nothing is lost if the process ends or the code host fails in between.
type Scribe struct {
	Hosts map[string]Host
	Facts *govern.Ledger
	Runs  Runs
	// Settle decides with the reviews that came before the run waited for one; see Dialogue.Settle.
	Settle func(ctx context.Context, t thread.Thread) (stuck string, err error)
	// Offer creates the intent that carries out the plan of a run; see Dialogue.Offer.
	Offer  func(ctx context.Context, t thread.Thread, run api.RunView) (intent.State, error)
	Logger zerolog.Logger

	shown map[string]string // by thread and key, the digest of the text of a comment that was last written
	woken woken             // threads with an intent that changed
}

// The keys of comments: that of the status, and the beginnings of others; see thread.WaitPosts for questions.
const (
	statusPost  = "status"
	answerPosts = "answer:"
	// stuckPosts begin those about checks that the agent did not repair.
	stuckPosts = "stuck:"
	// offerPosts begin the records of plans that were offered, which are no comments.
	offerPosts = "offer:"
	// elsewherePost begins that of the assumptions about no line that a pull request shows.
	elsewherePost = "assumed-elsewhere:"
)

// writer writes the comments of one thread.
type writer struct {
	*Scribe
	thread.Thread
	client Client
	posts  map[string]thread.Post
}

func (w *writer) recordPost(ctx context.Context, p thread.Post) error {
	_, err := w.Facts.AddFact(ctx, audit.Entry{Kind: audit.Post, Subject: w.Posts()}, p, store.Any)
	w.posts[p.Key] = p
	return err
}

// putPost writes a comment, or edits it if it shows another text.
func (w *writer) putPost(ctx context.Context, p thread.Post, body string) error {
	key := w.Thread.String() + " " + p.Key
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	known := w.posts[p.Key]
	if known.Settled || known.Comment != 0 && w.shown[key] == sum && p.Final == known.Final {
		return nil
	}
	if known.Comment == 0 {
		found, err := w.createPost(ctx, p, body)
		if err != nil {
			return err
		}
		p.Comment = found
	} else {
		p.Comment = known.Comment
		if p.Key == statusPost || strings.HasPrefix(p.Key, elsewherePost) { // others do not change
			_, err := w.client.EditComment(ctx, w.Repo, p.Comment, w.Marker(p.Key).Add(body))
			if err != nil && !forge.IsNotFound(err) { // a person deleted it: it stays away
				return err
			}
		}
	}
	w.noteShown(key, sum)
	if known.Comment == p.Comment && known.Final == p.Final {
		return nil
	}
	return w.recordPost(ctx, p)
}

// noteShown keeps the digest of a text that was written.
func (s *Scribe) noteShown(key, sum string) {
	if s.shown == nil {
		s.shown = map[string]string{}
	}
	s.shown[key] = sum
}

// createPost writes a new comment, unless it was written before.
func (w *writer) createPost(ctx context.Context, p thread.Post, body string) (int64, error) {
	found, err := w.findOwn(ctx, thread.Post{Key: p.Key, Prompt: p.Prompt}, nil)
	if err != nil || found != 0 {
		return found, err
	}
	c, err := w.client.CreateComment(ctx, w.Repo, w.Number, w.Marker(p.Key).Add(body))
	return c.ID, err
}

// findOwn returns the comment that was begun before, 0 if it was not written: one on the thread, on a line, or a reply to one. A comment
// that was not begun is recorded as begun. lines are the comments on lines.
func (w *writer) findOwn(ctx context.Context, p thread.Post, lines []forge.ReviewComment) (int64, error) {
	known, begun := w.posts[p.Key]
	if !begun {
		return 0, w.recordPost(ctx, p)
	}
	self, err := w.client.Self(ctx)
	if err != nil {
		return 0, err
	}
	written, err := w.client.Comments(ctx, w.Repo, w.Number) // where there are no threads
	if err != nil {
		return 0, err
	}
	for _, c := range lines {
		written = append(written, c.Comment)
	}
	if c, found := forge.FindComment(written, self.ID, w.Marker(p.Key)); found {
		return c.ID, nil
	}
	if known.IsFresh() {
		return 0, thread.ErrFresh
	}
	return 0, nil
}

// findThreads returns the threads of a run, and where it asks people: at its newest pull request, else at its work item.
func findThreads(facts *govern.Ledger, v api.RunView) (all []thread.Thread, asks thread.Thread, err error) {
	if t, ok := thread.Parse(v.WorkItem); ok {
		all, asks = append(all, t), t
	}
	pulls, err := facts.Pulls(v.RunID)
	if err != nil {
		return nil, asks, err
	}
	for _, p := range pulls {
		asks = thread.OfPull(p)
		all = append(all, asks)
	}
	return all, asks, nil
}
