package dialogue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
)

const (
	// statusPause is the least time between two edits of the status of a run that works: code hosts limit writes.
	statusPause = 15 * time.Second
	retryPause  = 10 * time.Second
	// checkPause is the time between two looks at the checks of a pull request. Webhooks cause further looks, but one may be lost.
	checkPause = 15 * time.Minute
	// shownRuns bounds the runs of a thread that are looked at.
	shownRuns = 20
)

// Scribe shows the runs of a thread in comments: one with the state of the newest run, which it edits, one for each question,
// and one with the answer to an issue. It compares the comments that should be there with those that it wrote, so that
// nothing is lost if the process ends or the code host fails in between.
type Scribe struct {
	Hosts map[string]Host
	Facts *govern.Ledger
	Runs  Runs
	// Settle decides with the reviews that came before the run waited for one; see Dialogue.Settle.
	Settle func(ctx context.Context, t Thread) (stuck string, err error)
	// Offer creates the intent that carries out the plan of a run; see Dialogue.Offer.
	Offer  func(ctx context.Context, t Thread, run api.RunView) (intent.State, error)
	Logger zerolog.Logger

	shown map[string]string // by thread and key, the digest of the text of a comment that was last written
	woken woken             // threads with an intent that changed
}

// The keys of comments: that of the status, and the beginnings of others. A question has the digest of its wait in its key, so
// that a wait that changes gets another comment.
const (
	statusPost  = "status"
	waitPosts   = "wait:"
	answerPosts = "answer:"
	// commandPosts begin those of answers to commands.
	commandPosts = "command:"
	// stuckPosts begin those about checks that the agent did not repair.
	stuckPosts = "stuck:"
	// offerPosts begin the records of plans that were offered, which are no comments.
	offerPosts = "offer:"
)

// post is the body of an entry about a comment: first that it is about to be written, then its number.
type post struct {
	Post    string `json:"post"` // its key
	Comment int64  `json:"comment_id,omitempty"`
	// Prompt is the text of a question, which its comment keeps when it is settled. Settled says that this was done.
	Prompt  string `json:"prompt,omitempty"`
	Settled bool   `json:"settled,omitempty"`
	// Final is the state of the run in the last edit of a status comment.
	Final string `json:"final,omitempty"`
	// Intent is the one that asks whether to carry out the plan of a run, if there is one.
	Intent string `json:"intent_id,omitempty"`

	at time.Time // of the entry
}

// isFresh reports whether the comment may have been written a moment ago without being listed yet.
func (p post) isFresh() bool { return time.Since(p.at) < forge.ListLag }

var errFresh = errors.New("a comment was begun a moment ago, and the code host may list it late")

func postsOf(t Thread) string { return "posts:" + t.String() }

// Follow shows runs as they change, until ctx ends. A thread is due at once when its run rests, else after a pause.
func (s *Scribe) Follow(ctx context.Context) {
	if len(s.Hosts) == 0 {
		return
	}
	s.wakeGated(ctx)
	changed, ended := make(chan api.RunView), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := s.Runs.Updates(ctx, 0, func(v api.RunView) error {
				select {
				case changed <- v:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err == nil { // the leader ends
				return
			}
			if ctx.Err() == nil {
				s.Logger.Error().Err(err).Msg("look at the runs of threads")
			}
			sleep(ctx, retryPause)
		}
	}()
	defer func() { <-ended }()
	due, last := map[Thread]time.Time{}, map[Thread]time.Time{}
	for {
		pause := time.Hour
		for t, at := range due {
			if wait := time.Until(at); wait > 0 {
				pause = min(pause, wait)
				continue
			}
			delete(due, t)
			last[t] = time.Now()
			if err := s.Show(ctx, t); err != nil && ctx.Err() == nil {
				s.Logger.Warn().Err(err).Stringer("thread", t).Msg("show the runs of a thread")
				due[t] = time.Now().Add(retryPause)
			} else if s.woken.awaiting()[t] != "" {
				due[t] = time.Now().Add(cmp.Or(s.Hosts[t.Host].Poll, checkPause))
			}
			if at, again := due[t]; again {
				pause = min(pause, time.Until(at))
			}
		}
		select {
		case <-ctx.Done():
			return
		case v := <-changed:
			threads, _, err := threadsOf(s.Facts, v)
			if err != nil {
				s.Logger.Error().Err(err).Str("run_id", v.RunID).Msg("look for the threads of a run")
			}
			for _, t := range threads {
				if _, known := s.Hosts[t.Host]; !known {
					continue
				}
				at := last[t].Add(statusPause)
				if v.Status.Ended() || len(v.Waits) > 0 {
					at = time.Now()
				}
				if before, waits := due[t]; !waits || at.Before(before) {
					due[t] = at
				}
			}
		case <-s.woken.bell():
			for t := range s.woken.take() {
				due[t] = time.Now()
			}
		case <-time.After(pause):
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Show writes and edits the comments of a thread so that they show its runs, and the intents that wait for people.
func (s *Scribe) Show(ctx context.Context, t Thread) error {
	runs, err := runsOf(ctx, s.Runs, s.Facts, t, shownRuns)
	if err != nil {
		return err
	}
	posts, err := s.loadPosts(t)
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
	for _, q := range requestsOf(nil, gated) {
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
		if err := w.putPost(ctx, post{Post: answerPosts + r.RunID}, presence.Answer(r.RunID, answer, note)); err != nil {
			return err
		}
	}
	return errors.Join(w.settleQuestions(ctx, open), offering)
}

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
		shown, err := describeRun(ctx, w.Runs, newest)
		if err != nil {
			return err
		}
		for _, q := range requestsOf(nil, gated) {
			shown.Asks = append(shown.Asks, q.proposal())
		}
		if err := w.putPost(ctx, post{Post: statusPost, Final: final}, presence.Status(shown)); err != nil {
			return err
		}
	}
	status := newest.Status
	if len(gated) > 0 && status.Ended() {
		status = lattice.Waiting
	}
	return w.showLabel(ctx, status)
}

// offerPlan offers the plan of a run, once. An intent that asks takes the place of the answer. It returns the name of a missing setting.
func (w *writer) offerPlan(ctx context.Context, newest api.RunView) (lacks string, err error) {
	key := offerPosts + newest.RunID
	if planOf(newest) == "" || w.posts[key].Settled {
		return "", nil
	}
	s, err := w.Offer(ctx, w.Thread, newest)
	if refused := fault.As(err); refused != nil && !refused.Retryable {
		return refused.Message, nil
	}
	if err != nil {
		return "", err
	}
	offered := post{Post: key, Settled: true}
	if s.Decision == lattice.Ask {
		offered.Intent = s.ID
	}
	return "", w.recordPost(ctx, offered)
}

// askPeople writes the questions of a run, unless it asks them in another thread, and adds their keys to open. A wait for a review
// has no comment: the pull request asks for it. The comments of the reviews before it are answered.
func (w *writer) askPeople(ctx context.Context, r api.RunView, open map[string]bool) error {
	_, asks, err := threadsOf(w.Facts, r)
	if err != nil || !asks.same(w.Thread) {
		return err
	}
	waits := false
	for _, q := range requestsOf([]api.RunView{r}, nil) {
		if asked, ok := awaitsReview(q.wait); ok && asked.Number == w.Number {
			waits = true
			if err := w.reply(ctx, r.RunID, &q.wait, asked); err != nil {
				return err
			}
			w.woken.setAwaited(w.Thread, asked.Head)
			stuck, err := w.Settle(ctx, w.Thread)
			if err == nil && stuck != "" {
				err = w.putPost(ctx, post{Post: stuckPosts + q.key()}, presence.Stuck(stuck, asked.Said))
			}
			if err != nil {
				return err
			}
			if err := w.showAssumptions(ctx, r.RunID, q.wait, asked.Head); err != nil {
				return err
			}
			continue
		}
		if err := w.askAbout(ctx, q, open); err != nil {
			return err
		}
	}
	if !waits {
		return w.reply(ctx, r.RunID, nil, awaited{})
	}
	return nil
}

// askAbout writes the question about a request, and adds its key to open.
func (w *writer) askAbout(ctx context.Context, q request, open map[string]bool) error {
	open[q.key()] = true
	body, prompt := q.question()
	return w.putPost(ctx, post{Post: q.key(), Prompt: prompt}, body)
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

// loadPosts returns the known comments of a thread, by their keys.
func (s *Scribe) loadPosts(t Thread) (map[string]post, error) {
	posts := map[string]post{}
	err := s.Facts.Store.Audit(postsOf(t), 0, func(e audit.Entry) error {
		var p post
		if err := json.Unmarshal(e.Body, &p); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		if p.Prompt == "" {
			p.Prompt = posts[p.Post].Prompt
		}
		p.at = e.At
		posts[p.Post] = p
		return nil
	})
	return posts, err
}

// writer writes the comments of one thread.
type writer struct {
	*Scribe
	Thread
	client Client
	posts  map[string]post
}

func (w *writer) recordPost(ctx context.Context, p post) error {
	_, err := w.Facts.AddFact(ctx, audit.Entry{Kind: audit.Post, Subject: postsOf(w.Thread)}, p, store.Any)
	w.posts[p.Post] = p
	return err
}

// putPost writes a comment, or edits it if it shows another text.
func (w *writer) putPost(ctx context.Context, p post, body string) error {
	key := w.Thread.String() + " " + p.Post
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	known, begun := w.posts[p.Post]
	if known.Settled || known.Comment != 0 && w.shown[key] == sum && p.Final == known.Final {
		return nil
	}
	marker := forge.MarkerOf("post", key)
	if known.Comment == 0 {
		found, err := w.createPost(ctx, p, known, begun, marker, body)
		if err != nil {
			return err
		}
		p.Comment = found
	} else {
		p.Comment = known.Comment
		if p.Post == statusPost || strings.HasPrefix(p.Post, elsewherePost) { // others do not change
			_, err := w.client.EditComment(ctx, w.Repo, p.Comment, marker.Add(body))
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

// createPost writes a new comment. If that was begun before, it looks for it first, until the code host must list it.
func (w *writer) createPost(ctx context.Context, p, known post, begun bool, marker forge.Marker, body string) (int64, error) {
	if begun {
		self, err := w.client.Self(ctx)
		if err != nil {
			return 0, err
		}
		all, err := w.client.Comments(ctx, w.Repo, w.Number)
		if err != nil {
			return 0, err
		}
		if c, found := forge.FindComment(all, self.ID, marker); found {
			return c.ID, nil
		}
		if known.isFresh() {
			return 0, errFresh
		}
	} else if err := w.recordPost(ctx, post{Post: p.Post, Prompt: p.Prompt}); err != nil {
		return 0, err
	}
	c, err := w.client.CreateComment(ctx, w.Repo, w.Number, marker.Add(body))
	return c.ID, err
}

// settleQuestions edits the comments of questions that are not open any more.
func (w *writer) settleQuestions(ctx context.Context, open map[string]bool) error {
	for key, p := range w.posts {
		rest, isQuestion := strings.CutPrefix(key, waitPosts)
		if !isQuestion || open[key] || p.Settled || p.Comment == 0 {
			continue
		}
		run, _, _ := strings.Cut(rest, ":")
		marker := forge.MarkerOf("post", w.Thread.String()+" "+key)
		if _, err := w.client.EditComment(ctx, w.Repo, p.Comment, marker.Add(presence.Settled(run, p.Prompt))); err != nil && !forge.IsNotFound(err) {
			return err
		}
		p.Settled = true
		if err := w.recordPost(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// describeRun returns the part of a run that a status comment shows.
func describeRun(ctx context.Context, runs Runs, v api.RunView) (presence.Run, error) {
	r := presence.Run{ID: v.RunID, Flow: v.Flow, Status: v.Status}
	if v.Error != nil {
		r.Failure = v.Error.Message
	}
	for _, w := range v.Waits {
		if asked, ok := awaitsReview(w); ok {
			r.Review = asked.Head
		}
	}
	line := timeline.New()
	err := runs.Outline(ctx, v.RunID, 0, func(e lattice.Entry) error {
		line.Add(e)
		return nil
	})
	if err != nil {
		return r, errors.Join(errors.New("read the steps of a run"), err)
	}
	for _, s := range line.All() {
		step := presence.Step{Name: s.Node, State: string(s.State)}
		if !s.Ended.IsZero() {
			step.Took = s.Ended.Sub(s.Started)
		}
		r.Steps = append(r.Steps, step)
		r.Latest = cmp.Or(s.Message, r.Latest)
	}
	return r, nil
}
