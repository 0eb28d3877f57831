package dialogue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// A review of a pull request answers the wait of the run that opened it. The review is kept first, as its signed delivery
// tells it, because people also review while the run works. When a run waits for a review, Settle decides with the
// kept reviews: requests for changes go to the run all at once, and an approval counts only for the commit that lattice pushed last.
//
// An approval binds the head of the delivery. A later answer of the code host can only refuse it: the reviewer has lost the
// role, the review was dismissed, or the branch is at another commit. The commit that it lists for a review is not read,
// because GitHub moves it to the new head after a force-push.

// reviewLag is how long a review may be missing at the code host before it counts as gone.
const reviewLag = 2 * time.Minute

// review is the body of an entry about a review, as its delivery tells it.
type review struct {
	ID       string            `json:"delivery_id"`
	Item     int64             `json:"review_id,omitempty"` // Gitea tells none
	Who      forge.User        `json:"author"`
	State    forge.ReviewState `json:"state"`
	Text     string            `json:"text,omitempty"`
	Head     string            `json:"head"`
	Reviewed string            `json:"reviewed,omitempty"`
	At       time.Time         `json:"submitted_at,omitzero"`
	// Polled says that no signed delivery brought the review: Head is that of the time when it was asked for.
	Polled bool `json:"polled,omitempty"`
}

// settled is the body of an entry about the outcome of reviews, as it is written.
type settled struct {
	thread.Settled
	LeftOut *gather.LeftOut `json:"left_out,omitempty"` // of the context bundle
}

func reviewsOf(t thread.Thread) string { return strings.ToLower("reviews:" + t.String()) }

// handleReview keeps a review of a pull request that lattice opened, and decides with it if the run waits for one.
func (d *Dialogue) handleReview(ctx context.Context, host string, e hook.Delivery) (string, error) {
	t := thread.Thread{Host: host, Repo: e.Repo, Number: e.Number}
	runs, err := d.Facts.RunsOfPull(host, e.Repo, e.Number)
	if err != nil {
		return "", err
	}
	_, self, err := d.connect(ctx, host)
	if err != nil {
		return settleError(err)
	}
	switch {
	case len(runs) == 0:
		return "nothing to do: lattice did not open the pull request", nil
	case e.Author.ID == self.ID:
		return "nothing to do: lattice wrote it", nil
	case e.Sender.ID == 0 || e.Sender.ID != e.Author.ID:
		return "refused: the sender is not the author", nil
	case e.Sender.Bot:
		return "refused: the author is a bot", nil
	case e.Fork:
		return "refused: the pull request comes from a fork", nil
	}
	r := review{ID: e.ID, Item: e.Item, Who: e.Author, State: forge.ReviewState(e.State), Text: e.Text, Head: e.Head, Reviewed: e.Reviewed, At: e.Created, Polled: e.Name == hook.Polled}
	if r.At.IsZero() { // Gitea does not tell
		r.At = time.Now().UTC()
	}
	by := caller.With(ctx, personOf(host, e.Author))
	if _, err := d.Facts.AddFact(by, audit.Entry{Kind: audit.Review, Subject: reviewsOf(t), Key: "review:" + host + ":" + e.ID}, r, store.Any); err != nil {
		return "", err
	}
	if _, err := d.Settle(ctx, t); err != nil {
		return settleError(err)
	}
	all, outcomes, err := d.loadReviews(t)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(all, func(r review) bool { return r.ID == e.ID }) {
		return "the review is known already", nil
	}
	for _, s := range outcomes {
		if slices.Contains(s.IDs, e.ID) {
			return s.Outcome, nil
		}
	}
	return "kept until the run waits for a review and the checks have ended", nil
}

// loadReviews returns the reviews of a pull request, and their outcomes.
func (d *Dialogue) loadReviews(t thread.Thread) (all []review, outcomes []thread.Settled, err error) {
	if all, err = govern.ReadBodies[review](d.Facts, reviewsOf(t)); err != nil {
		return nil, nil, err
	}
	outcomes, err = govern.ReadBodies[thread.Settled](d.Facts, t.Outcomes())
	return dropRepeated(all), outcomes, err
}

// dropRepeated leaves out reviews that both a delivery and a poll brought: the later of the two.
func dropRepeated(all []review) (once []review) {
	for _, r := range all {
		if !slices.ContainsFunc(once, func(o review) bool {
			return o.Polled != r.Polled && (o.Item == r.Item || o.Item*r.Item == 0 && o.Who.ID == r.Who.ID && o.State == r.State && o.Text == r.Text)
		}) {
			once = append(once, r)
		}
	}
	return once
}

// Settled returns the outcomes of reviews of a pull request, by the ids of their deliveries.
func (d *Dialogue) Settled(host string, p forge.Path, number int64) (map[string]string, error) {
	outcomes, err := govern.ReadBodies[thread.Settled](d.Facts, thread.Thread{Host: host, Repo: p, Number: number}.Outcomes())
	if err != nil {
		return nil, err
	}
	became := map[string]string{}
	for _, s := range outcomes {
		for _, id := range s.IDs {
			became[id] = s.Outcome
		}
	}
	return became, nil
}

// reviewed is a run that waits for a review of its pull request.
type reviewed struct {
	thread.Thread
	run  api.RunView
	wait lattice.Wait
	pull govern.Pull
}

// findReviewed returns the run that waits for a review of a pull request. Its wait must name the commit that lattice pushed.
func (d *Dialogue) findReviewed(ctx context.Context, t thread.Thread) (found reviewed, ok bool, err error) {
	runs, err := thread.FindRuns(ctx, d.Runs, d.Facts, t, 0)
	if err != nil {
		return found, false, err
	}
	for _, r := range runs {
		for _, w := range r.Waits {
			asked, is := thread.AwaitsReview(w)
			if !is || asked.Number != t.Number {
				continue
			}
			pulls, err := d.Facts.Pulls(r.RunID)
			if err != nil {
				return found, false, err
			}
			for _, p := range pulls {
				if p.Number == t.Number && p.Head == asked.Head && thread.OfPull(p).Same(t) {
					return reviewed{t, r, w, p}, true, nil
				}
			}
			d.Logger.Warn().Str("run_id", r.RunID).Stringer("thread", t).Msg("a run waits for a review of a commit that lattice did not push last")
		}
	}
	return found, false, nil
}

// Settle decides with the reviews of a pull request that were kept, else with its checks, if a run waits for a review. One decision is made
// about a wait: it is on disk before the run gets it, and the run gets it again after a crash in between. stuck tells the checks that fail if
// only people can go on.
func (d *Dialogue) Settle(ctx context.Context, t thread.Thread) (stuck string, err error) {
	at, waits, err := d.findReviewed(ctx, t)
	if err != nil || !waits {
		return "", err
	}
	all, outcomes, err := d.loadReviews(t)
	if err != nil {
		return "", err
	}
	done := map[string]bool{}
	for _, s := range outcomes {
		if s.Run == at.run.RunID && s.Wait == at.wait.ID && s.Verdict != "" {
			return "", d.answerReview(ctx, at, s)
		}
		for _, id := range s.IDs {
			done[id] = true
		}
	}
	client, err := d.Hosts[at.Host].Client()
	if err != nil {
		return "", err
	}
	var decision settled
	if all = slices.DeleteFunc(all, func(r review) bool { return done[r.ID] }); len(all) > 0 {
		decision, err = d.weighReviews(ctx, client, at, all)
	}
	if err == nil && decision.Verdict == "" {
		decision, stuck, err = d.weighChecks(ctx, client, at, outcomes)
	}
	if err != nil || decision.Verdict == "" {
		return stuck, err
	}
	decision.Run, decision.Wait, decision.Head = at.run.RunID, at.wait.ID, at.pull.Head
	decision.Outcome = decision.Verdict + " " + at.run.RunID
	key := "review-settled:" + thread.NewRequest(at.run.RunID, at.wait).Key()
	entry, err := d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Review, Subject: t.Outcomes(), Key: key}, decision, store.Any)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(entry.Body, &decision); err != nil { // that of another attempt, if it was first
		return "", fmt.Errorf("read audit entry %d: %w", entry.Seq, err)
	}
	return "", d.answerReview(ctx, at, decision.Settled)
}

// weighReviews returns the decision that reviews make about a wait. Those that do not count are refused, each with an entry. Requests
// for changes go before approvals, which are kept for the next wait, or until the checks of the commit have ended.
func (d *Dialogue) weighReviews(ctx context.Context, client Client, at reviewed, all []review) (out settled, err error) {
	pull, err := client.Pull(ctx, at.Repo, at.Number)
	if err != nil {
		return out, err
	}
	listed, err := client.Reviews(ctx, at.Repo, at.Number)
	if err != nil {
		return out, err
	}
	comments, err := client.ReviewComments(ctx, at.Repo, at.Number)
	if err != nil {
		return out, err
	}
	var approvals []review
	var feedback strings.Builder
	for _, r := range all {
		now, found := findListed(listed, r)
		if !found && time.Since(r.At) < reviewLag {
			return settled{}, fmt.Errorf("the code host does not list the review %d of %s yet", r.Item, at)
		}
		role, err := client.Role(ctx, at.Repo, r.Who.ID)
		if err != nil {
			return settled{}, err
		}
		if why := refuseReview(r, now, found, role, at.pull, pull); why != "" {
			refused := thread.Settled{IDs: []string{r.ID}, Run: at.run.RunID, Outcome: "refused: " + why}
			if _, err := d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Review, Subject: at.Outcomes(), Key: "review-refused:" + at.Host + ":" + r.ID}, refused, store.Any); err != nil {
				return settled{}, err
			}
			continue
		}
		if r.State == forge.Approved {
			approvals = append(approvals, r)
			continue
		}
		out.IDs = append(out.IDs, r.ID)
		out.Comments = append(out.Comments, describeReview(&feedback, r, now.ID, comments)...)
		out.Who = cmp.Or(out.Who, r.Who)
	}
	if feedback.Len() == 0 {
		if len(approvals) == 0 {
			return settled{}, nil
		}
		for _, r := range approvals {
			out.IDs, out.Who = append(out.IDs, r.ID), cmp.Or(out.Who, r.Who)
		}
		red, ended, err := describeRed(ctx, client, at.Repo, at.pull.Head)
		if err != nil || red == "" && !ended {
			return settled{}, err
		}
		feedback.WriteString(red)
	}
	out.Verdict = thread.VerdictApproved
	if feedback.Len() > 0 {
		out.Verdict = thread.VerdictChanges
	}
	err = addAnswer(ctx, client, at, &out, feedback.String(), all[len(all)-1].At)
	return out, err
}

// maxCheckRounds bounds the requests for changes that follow each other without a person, because checks fail.
const maxCheckRounds = 5

// weighChecks returns the request for changes that the checks of the awaited commit make when all have ended. Each commit gets one. stuck
// tells the checks that fail if it is up to people: the agent changed nothing for them, or tried maxCheckRounds times.
func (d *Dialogue) weighChecks(ctx context.Context, client Client, at reviewed, outcomes []thread.Settled) (out settled, stuck string, err error) {
	red, ended, err := describeRed(ctx, client, at.Repo, at.pull.Head)
	if err != nil || red == "" || !ended {
		return out, "", err
	}
	rounds := 0
	for _, s := range slices.Backward(outcomes) {
		switch {
		case s.Run != at.run.RunID || s.Verdict == "":
			continue
		case s.Checks && s.Head == at.pull.Head:
			return out, red, nil
		}
		if !s.Checks {
			break
		}
		rounds++
	}
	if rounds >= maxCheckRounds {
		return out, red, nil
	}
	out.Checks, out.Verdict = true, thread.VerdictChanges
	err = addAnswer(ctx, client, at, &out, red, time.Now())
	return out, "", err
}

// addAnswer adds the answer to a decision, with the context bundle of a moment if the run wants it.
func addAnswer(ctx context.Context, client Client, at reviewed, out *settled, feedback string, moment time.Time) (err error) {
	var files []gather.File
	if _, wanted := at.wait.Expected[thread.ContextInput]; wanted && out.Verdict == thread.VerdictChanges {
		g, err := gather.Read(ctx, gather.Source{Thread: at.Thread, Client: client, Comment: math.MaxInt64, Left: &gather.LeftOut{}})
		if err != nil {
			return err
		}
		g.At = moment
		if files, err = g.Bundle(ctx); err != nil {
			return err
		}
		out.LeftOut = g.Left.OrNil()
	}
	out.Answer, err = encodeAnswer(out.Verdict, feedback, files)
	return err
}

// maxReviewAnswer bounds the answer of reviews, encoded. The leader takes no answer of twice the size.
const maxReviewAnswer = 128 << 10

// encodeAnswer returns the answer to a wait for a review. Long texts are cut until it is small enough.
func encodeAnswer(verdict, feedback string, files []gather.File) (json.RawMessage, error) {
	for limit := gather.MaxText; ; limit /= 2 {
		answer := map[string]any{"verdict": verdict, "feedback": text.Head(feedback, limit)}
		if len(files) > 0 {
			cut := slices.Clone(files)
			for i := range cut[1:] { // the manifest is whole
				cut[1+i].Content = text.Head(cut[1+i].Content, limit)
			}
			answer[thread.ContextInput] = cut
		}
		raw, err := json.Marshal(answer)
		if err != nil || len(raw) <= maxReviewAnswer || limit < 1<<10 {
			return raw, err
		}
	}
}

// refuseReview says why a review does not count, "" if it does. now is the review as the code host lists it.
func refuseReview(r review, now forge.Review, found bool, role forge.Role, pushed govern.Pull, pull forge.PullRequest) string {
	switch {
	case !found || now.Author.ID != r.Who.ID:
		return "the review is not there any more"
	case now.State == forge.Dismissed:
		return "the review was dismissed"
	case !role.AtLeast(forge.Write):
		return "a review needs the role write"
	case !pull.Open:
		return "the pull request is closed"
	case r.State == forge.ChangesRequested || r.State == forge.Commented:
		return ""
	case r.State != forge.Approved:
		return fmt.Sprintf("the state %.32q of the review is not known", r.State)
	case r.Head != pushed.Head:
		return fmt.Sprintf("it approves %.12s, and lattice pushed %.12s last", r.Head, pushed.Head)
	case r.Polled && !r.At.After(pushed.At):
		return "it was submitted before the last push, and no delivery says of which commit"
	case r.Reviewed != "" && r.Reviewed != pushed.Head:
		return fmt.Sprintf("its author saw %.12s, and lattice pushed %.12s last", r.Reviewed, pushed.Head)
	case pull.Head.SHA != pushed.Head:
		return fmt.Sprintf("the branch is at %.12s, and lattice pushed %.12s last", pull.Head.SHA, pushed.Head)
	}
	return ""
}

// findListed returns a review as the code host lists it. One of Gitea is known by its author, state and text.
func findListed(listed []forge.Review, r review) (forge.Review, bool) {
	for _, l := range slices.Backward(listed) {
		same := l.Author.ID == r.Who.ID && l.Body == r.Text && (l.State == r.State || l.State == forge.Dismissed)
		if r.Item != 0 && l.ID == r.Item || r.Item == 0 && same {
			return l, true
		}
	}
	return forge.Review{}, false
}

// describeReview writes the text of a review with its comments, and returns the numbers of these. Replies and comments that
// were edited are left out.
func describeReview(b *strings.Builder, r review, id int64, comments []forge.ReviewComment) (numbers []int64) {
	var parts []string
	if said := strings.TrimSpace(comment.StripHidden(text.Visible(r.Text))); said != "" {
		parts = append(parts, said)
	}
	for _, c := range comments {
		if c.ReviewID != id || c.Author.ID != r.Who.ID || c.ReplyTo != 0 || c.Edited() {
			continue
		}
		parts = append(parts, fmt.Sprintf("At %s:%d:\n\n%s", text.Line(c.Path), c.Line, comment.StripHidden(text.Visible(c.Body))))
		numbers = append(numbers, c.ID)
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "%s wrote:\n\n%s\n\n", text.Line(r.Who.Login), strings.Join(parts, "\n\n"))
	}
	return numbers
}

// answerReview gives a run the decision about its wait. If people decided otherwise in between, theirs holds.
func (d *Dialogue) answerReview(ctx context.Context, at reviewed, s thread.Settled) error {
	who, by := personOf(at.Host, s.Who), thread.NameUser(at.Host, s.Who)
	if s.Checks {
		who, by = audit.Who{Name: "forge:" + at.Host, UID: -1}, "the checks at "+at.Host
	}
	ctx = caller.With(ctx, who)
	_, err := d.Runs.Decide(ctx, at.run.RunID, api.DecideRequest{WaitID: s.Wait, Decision: lattice.Answer, Typed: s.Answer, By: by, Detach: true, Values: d.Hosts[at.Host].values()})
	if p := fault.As(err); p != nil && !p.Retryable {
		d.Logger.Warn().Err(err).Str("run_id", at.run.RunID).Msg("a review came too late")
		return nil
	}
	return err
}

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
