package dialogue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// handleComment carries out the commands in a comment.
func (d *Dialogue) handleComment(ctx context.Context, host string, e hook.Delivery) (string, error) {
	commands := comment.Parse(e.Text)
	switch {
	case len(commands) == 0 && !forge.IsMarked(e.Text):
		return "no command", nil
	case len(commands) == 0:
		return d.judgeMarked(ctx, host, e.Author)
	case e.Sender.ID != e.Author.ID || e.Sender.ID == 0:
		return "refused: the sender is not the author", nil
	case e.Sender.Bot:
		return "refused: the author is a bot", nil
	}
	client, self, err := d.connect(ctx, host)
	if err != nil {
		return settleError(err)
	}
	if self.ID == e.Author.ID {
		return "no command: lattice wrote it", nil
	}
	// The delivery may be late: a command that its author took back, or that was changed, is not carried out.
	now, err := client.Comment(ctx, e.Repo, e.Item)
	switch {
	case forge.IsNotFound(err):
		return "refused: the comment was deleted", nil
	case err != nil:
		return settleError(err)
	case now.Edited() || now.Author.ID != e.Author.ID || now.Body != e.Text && !(e.Cut && strings.HasPrefix(now.Body, e.Text)):
		return "refused: the comment was edited", nil
	}
	fork, err := d.isForeign(ctx, client, host, e)
	if err != nil {
		return settleError(err)
	}
	var all []string
	t := thread.Thread{Host: host, Repo: e.Repo, Number: e.Number}
	for _, c := range commands {
		source := gather.Source{Thread: t, Client: client, Comment: e.Item, IssueSum: e.IssueSum, Left: &gather.LeftOut{}}
		outcome, err := d.carryOut(ctx, asked{Command: c, Source: source, client: client, person: e.Author, fork: fork})
		if err != nil {
			return settleError(err)
		}
		all = append(all, outcome)
	}
	return strings.Join(all, "; "), nil
}

// isForeign reports whether a comment is on a pull request from a fork, and the settings do not take commands there. The
// comments of a poll do not tell whether they are on a pull request.
func (d *Dialogue) isForeign(ctx context.Context, client Client, host string, e hook.Delivery) (bool, error) {
	if d.Hosts[host].Forks || !e.Pull && e.Name != hook.Polled {
		return false, nil
	}
	pull, err := client.Pull(ctx, e.Repo, e.Number)
	if forge.IsNotFound(err) {
		return false, nil // an issue
	}
	return pull.FromFork(), err
}

// judgeMarked judges a comment that ends with a marker of lattice and has no command: it is lattice's own, or a copy, which has no
// effect.
func (d *Dialogue) judgeMarked(ctx context.Context, host string, author forge.User) (string, error) {
	_, self, err := d.connect(ctx, host)
	if err != nil {
		return settleError(err)
	}
	if self.ID == author.ID {
		return "no command", nil
	}
	return "refused: it copies the marker of a comment of lattice", nil
}

// carried is the body of an entry about a command.
type carried struct {
	Thread  string          `json:"thread"`
	Comment int64           `json:"comment_id"`
	Verb    comment.Verb    `json:"command"`
	Role    forge.Role      `json:"role"`
	Outcome string          `json:"outcome"`
	Code    string          `json:"code,omitempty"` // of the error
	LeftOut *gather.LeftOut `json:"left_out,omitempty"`
}

// maxCommands is the number of commands that one person may give in a thread in an hour. Two programs that answer each other
// would else go on without end.
const maxCommands = 30

// carryOut carries out a command once.
func (d *Dialogue) carryOut(ctx context.Context, a asked) (string, error) {
	key := "command:" + a.entryName()
	ctx = caller.With(ctx, personOf(a.Host, a.person))
	c := carried{Thread: a.Thread.String(), Comment: a.Comment, Verb: a.Verb}
	done, recent, err := d.countCommands(a, key)
	switch {
	case err != nil || done:
		return "done before", err
	case recent > maxCommands: // the person was told; requests to the code host are saved
		c.Outcome = refusedRate
		_, err := d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Command, Subject: subjectOf(a.Thread), Key: key}, c, store.Any)
		return c.Outcome, err
	}
	role, err := a.client.Role(ctx, a.Repo, a.person.ID)
	if err != nil {
		return "", err
	}
	c.Role = role
	reaction := forge.Seen
	switch least := comment.Least(a.Verb); {
	case recent == maxCommands:
		c.Outcome, reaction = refusedRate, forge.No
	case a.Problem == "" && !role.AtLeast(least):
		c.Outcome, reaction = fmt.Sprintf("refused: %s needs the role %s", a.Verb, least), forge.No
	case a.Problem == "" && a.fork && comment.Least(a.Verb).AtLeast(forge.Write):
		c.Outcome, reaction = fmt.Sprintf("refused: the pull request comes from a fork, and forges.%s.forks is not set", a.Host), forge.No
	case a.Problem != "":
		c.Outcome, reaction = "refused: "+a.Problem, forge.Confused
	default:
		var reply string
		c.Outcome, reply, err = d.performCommand(ctx, a)
		c.LeftOut = a.Left.OrNil()
		switch {
		case err == nil && reply != "":
			err = d.postOnce(ctx, a, key, reply)
		case err != nil:
			p := fault.As(err)
			if p == nil || p.Retryable {
				return "", err
			}
			if c.Code = p.Code; p.Code == "approval_incomplete" { // it counts, and other people have to approve as well
				c.Outcome, err = p.Message, d.postOnce(ctx, a, key, "**lattice**: "+presence.Inline(p.Message)+"\n")
				break
			}
			c.Outcome, reaction, err = "refused: "+p.Message, forge.Confused, nil
		}
		if err != nil {
			return "", err
		}
	}
	// The person has to act, if the command came from one who may give commands.
	if text, refused := strings.CutPrefix(c.Outcome, "refused: "); refused && role.AtLeast(forge.Write) {
		text = fmt.Sprintf("**lattice** did not carry out %s: %s\n", presence.Inline("/lattice "+string(a.Verb)), presence.Inline(text))
		if err := d.postOnce(ctx, a, key, text); err != nil {
			return "", err
		}
	}
	if err := a.client.React(ctx, a.Repo, a.Comment, reaction); err != nil {
		d.Logger.Warn().Err(err).Str("thread", c.Thread).Msg("react to a comment") // the command was carried out
	}
	_, err = d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Command, Subject: subjectOf(a.Thread), Key: key}, c, store.Any)
	return c.Outcome, err
}

func subjectOf(t thread.Thread) string { return "thread:" + t.String() }

// refusedRate is the outcome of a command beyond maxCommands.
var refusedRate = fmt.Sprintf("refused: one person gives at most %d commands in an hour here", maxCommands)

// countCommands reports whether a command was carried out, and how many the person gave in the thread within the last hour.
func (d *Dialogue) countCommands(a asked, key string) (done bool, recent int, err error) {
	person := personOf(a.Host, a.person).Name
	err = d.Facts.Store.Audit(subjectOf(a.Thread), 0, func(e audit.Entry) error {
		done = done || e.Key == key
		if e.Kind == audit.Command && e.Who != nil && e.Who.Name == person && time.Since(e.At) < time.Hour {
			recent++
		}
		return nil
	})
	return done, recent, err
}

// performCommand performs a command. It returns a sentence about the outcome, and the text of a reply, if it has one.
func (d *Dialogue) performCommand(ctx context.Context, a asked) (outcome, reply string, err error) {
	by := thread.NameUser(a.Host, a.person)
	if a.Verb == comment.Help {
		return "help", comment.HelpText(), nil
	}
	if a.Verb == comment.Plan || a.Verb == comment.Research {
		s, err := d.createOnce(ctx, a)
		return "created " + s.ID, "", err
	}
	all, err := thread.FindRuns(ctx, d.Runs, d.Facts, a.Thread, 0)
	if err != nil {
		return "", "", err
	}
	open := slices.DeleteFunc(slices.Clone(all), func(r api.RunView) bool { return r.Status.Ended() })
	switch a.Verb {
	case comment.Rerun:
		if s, repeated, err := d.repeatWork(ctx, a, all, len(open) > 0); err != nil || repeated {
			return "created " + s.ID, "", err
		}
	case comment.Status:
		if len(all) == 0 {
			return "status", "**lattice**: no run belongs to this thread.\n", nil
		}
		shown, err := thread.DescribeRun(ctx, d.Runs, all[0])
		return "status", presence.Status(shown), err
	}
	t, before, err := d.aimOnce(ctx, a, func() (aim, error) {
		switch {
		case a.Verb == comment.Approve || a.Verb == comment.Reject || a.Verb == comment.Answer:
			return d.findAim(ctx, a, all, open, by)
		case len(open) == 0:
			return aim{}, fault.NotFound("run_not_found", "no run of this thread is open")
		}
		return aim{Run: open[0].RunID}, nil
	})
	if err == nil {
		err = d.performAim(ctx, a, t, before, by)
	}
	return fmt.Sprintf("%s %s", a.Verb, cmp.Or(t.Run, t.Intent)), "", err
}

// postOnce writes a comment with a key, unless that was done. It fails if an earlier attempt began a moment ago: the code host may list
// its comment late.
func (d *Dialogue) postOnce(ctx context.Context, a asked, key, body string) error {
	now := time.Now()
	begun, err := d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Post, Subject: a.Posts(), Key: "post:" + key}, thread.Post{Key: "command:" + key}, store.Any)
	if err != nil {
		return err
	}
	marker := forge.MarkerOf("reply", key)
	self, err := a.client.Self(ctx)
	if err != nil {
		return err
	}
	all, err := a.client.Comments(ctx, a.Repo, a.Number)
	if err != nil {
		return err
	}
	if _, found := forge.FindComment(all, self.ID, marker); found {
		return nil
	}
	if begun.At.Before(now) && time.Since(begun.At) < forge.ListLag {
		return thread.ErrFresh
	}
	_, err = a.client.CreateComment(ctx, a.Repo, a.Number, marker.Add(body))
	return err
}
