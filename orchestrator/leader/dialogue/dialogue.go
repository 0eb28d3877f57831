// Package dialogue carries out the commands in comments at a code host. Start with [Dialogue.Handle], which handles a
// delivery. Package comment recognizes commands. The person's role, which is read from the code host at that moment, and the
// policy decide whether the person may give one. The leader performs it.
//
// An issue or pull request is a thread, named FORGE:OWNER/NAME#NUMBER. Runs and intents with the name of a thread as their
// work item or subject belong to it.
//
// A delivery can be handled twice. Decisions and intents are idempotent by themselves; an entry of the audit log with the
// comment and its line as key says that a command was carried out.
package dialogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// Client is the part of forge.Client that is used.
type Client interface {
	Self(ctx context.Context) (forge.User, error)
	Role(ctx context.Context, p forge.Path, user int64) (forge.Role, error)
	Repository(ctx context.Context, p forge.Path) (forge.Repository, error)
	Issue(ctx context.Context, p forge.Path, number int64) (forge.Issue, error)
	AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error
	RemoveLabel(ctx context.Context, p forge.Path, number int64, label string) error
	Comment(ctx context.Context, p forge.Path, id int64) (forge.Comment, error)
	Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error)
	CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error)
	EditComment(ctx context.Context, p forge.Path, id int64, body string) (forge.Comment, error)
	React(ctx context.Context, p forge.Path, comment int64, r forge.Reaction) error
	Pull(ctx context.Context, p forge.Path, number int64) (forge.PullRequest, error)
	Checks(ctx context.Context, p forge.Path, sha string) ([]forge.Check, error)
	SetCheck(ctx context.Context, p forge.Path, sha string, c forge.Check) error
	Files(ctx context.Context, p forge.Path, number int64) ([]forge.File, error)
	Reviews(ctx context.Context, p forge.Path, number int64) ([]forge.Review, error)
	ReviewComments(ctx context.Context, p forge.Path, number int64) ([]forge.ReviewComment, error)
	CommentOnLine(ctx context.Context, p forge.Path, number int64, at forge.Line, body string) (forge.Comment, error)
	Reply(ctx context.Context, p forge.Path, number int64, to forge.ReviewComment, body string) (forge.Comment, error)
}

// Runs is the part of the leader that decides about runs and intents.
type Runs interface {
	Runs(ctx context.Context, which api.RunList) ([]api.RunView, error)
	Run(ctx context.Context, id string) (api.RunView, error)
	Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error)
	Drive(ctx context.Context, id string, r api.DriveRequest) (api.RunView, error)
	Stop(ctx context.Context, id string) (api.RunView, error)
	Cancel(ctx context.Context, id, by string) (api.RunView, error)
	CreateIntent(ctx context.Context, r api.IntentRequest) (intent.State, error)
	Intent(ctx context.Context, id string) (intent.State, error)
	Intents(ctx context.Context, before string, limit int) ([]intent.State, error)
	DecideIntent(ctx context.Context, id string, d api.IntentDecision) (intent.State, error)
	// GatedIntents returns the intents about a subject that people have to approve, the oldest first.
	GatedIntents(ctx context.Context, subject string) ([]intent.State, error)
	ResumeIntent(ctx context.Context, key string, values api.Values) (s intent.State, found bool, err error)
	Updates(ctx context.Context, after lattice.Seq, yield func(api.RunView) error) error
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
}

// Host is a code host.
type Host struct {
	// Client returns the connection to the code host.
	Client func() (Client, error)
	// Plan is the request for the intent of the command plan; its input lacks the issue.
	Plan api.IntentRequest
	// Work is the request for the intent that carries out a plan; its input lacks the plan. WorkLacks says which settings it needs.
	Work      api.IntentRequest
	WorkLacks string
	// Secrets are the values of the variables that the settings hand to agents.
	Secrets map[string]string
	// Forks takes commands in pull requests from forks.
	Forks bool
	// Labels shows the state of the newest run of a thread as a label.
	Labels bool
	// Poll is how often the checks of a pull request are looked at; 0 leaves it to webhooks, and looks rarely.
	Poll time.Duration
}

// Dialogue answers people.
type Dialogue struct {
	Hosts map[string]Host
	Facts *govern.Ledger
	Runs  Runs
	// Files lists the files of the commit with which work in a repository begins.
	Files  func(ctx context.Context, repo string) ([]string, error)
	Logger zerolog.Logger
}

// Handle carries out a delivery of a code host, and returns a sentence about its outcome. An error is a reason to try again.
func (d *Dialogue) Handle(ctx context.Context, host string, e hook.Delivery) (string, error) {
	switch {
	case e.Kind == hook.Ping:
		return "the webhook works", nil
	case e.Kind == hook.Comment && e.Action == hook.Created:
		return d.handleComment(ctx, host, e)
	case e.Kind == hook.Comment && e.Action == hook.Edited:
		return d.handleTick(ctx, host, e)
	case e.Kind == hook.Review && e.Action == hook.Submitted:
		return d.handleReview(ctx, host, e)
	case e.Kind == hook.PullRequest && (e.Action == hook.Synchronized || e.Action == hook.Closed):
		return d.handlePull(ctx, host, e)
	}
	return "nothing to do", nil
}

// asked is a command of a person, on its way.
type asked struct {
	comment.Command
	Thread
	client Client
	person forge.User
	item   int64 // the comment
	fork   bool  // the pull request comes from a fork, and the settings do not take those
	// issueSum is the digest of the issue when the command was given, "" if that is not known.
	issueSum string
	left     *leftOut
	box      string // the digest of the request whose box was ticked; "" of a command in a comment
}

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
	client, err := d.Hosts[host].Client()
	if err != nil {
		return "", err
	}
	self, err := client.Self(ctx)
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
	for _, c := range commands {
		outcome, err := d.carryOut(ctx, asked{c, Thread{host, e.Repo, e.Number}, client, e.Author, e.Item, fork, e.IssueSum, &leftOut{}, ""})
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

// settleError turns an error that asking again does not change into the outcome of a delivery.
func settleError(err error) (string, error) {
	if p, ok := errors.AsType[*forge.Problem](err); ok && p.Final() {
		return "failed: " + p.Error(), nil
	}
	return "", err
}

// carried is the body of an entry about a command.
type carried struct {
	Thread  string       `json:"thread"`
	Comment int64        `json:"comment_id"`
	Verb    comment.Verb `json:"command"`
	Role    forge.Role   `json:"role"`
	Outcome string       `json:"outcome"`
	Code    string       `json:"code,omitempty"` // of the error
	LeftOut *leftOut     `json:"left_out,omitempty"`
}

// maxCommands is the number of commands that one person may give in a thread in an hour. Two programs that answer each other
// would else go on without end.
const maxCommands = 30

// carryOut carries out a command once.
func (d *Dialogue) carryOut(ctx context.Context, a asked) (string, error) {
	key := fmt.Sprintf("command:%s:%d:%d", a.Host, a.item, a.Line)
	ctx = caller.With(ctx, personOf(a.Host, a.person))
	c := carried{Thread: a.Thread.String(), Comment: a.item, Verb: a.Verb}
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
		c.LeftOut = a.left.orNil()
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
	if err := a.client.React(ctx, a.Repo, a.item, reaction); err != nil {
		d.Logger.Warn().Err(err).Str("thread", c.Thread).Msg("react to a comment") // the command was carried out
	}
	_, err = d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Command, Subject: subjectOf(a.Thread), Key: key}, c, store.Any)
	return c.Outcome, err
}

// personOf returns a user as the audit log names people: by number, because another one may take over the login.
func personOf(host string, u forge.User) audit.Who {
	return audit.Who{Name: fmt.Sprintf("%s:%d", host, u.ID), UID: -1, Login: u.Login, Bot: u.Bot}
}

// nameUser names a user for people.
func nameUser(host string, u forge.User) string {
	return fmt.Sprintf("%s (%s:%d)", text.Line(u.Login), host, u.ID)
}

func subjectOf(t Thread) string { return "thread:" + t.String() }

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
	by := nameUser(a.Host, a.person)
	if a.Verb == comment.Help {
		return "help", comment.HelpText(), nil
	}
	if a.Verb == comment.Plan || a.Verb == comment.Research {
		s, err := d.createOnce(ctx, a)
		return "created " + s.ID, "", err
	}
	all, err := runsOf(ctx, d.Runs, d.Facts, a.Thread, 0)
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
		shown, err := describeRun(ctx, d.Runs, all[0])
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

// findAim returns the decision of a person about a wait or an intent of a thread. If none has the digest, the newest run may have a
// planTask that was not offered; the person is told the reason.
func (d *Dialogue) findAim(ctx context.Context, a asked, all, open []api.RunView, by string) (aim, error) {
	for offered := false; ; offered = true {
		gated, err := d.Runs.GatedIntents(ctx, a.Thread.String())
		if err != nil {
			return aim{}, err
		}
		t, err := findRequest(a, requestsOf(open, gated), by)
		if p := fault.As(err); err == nil || offered || p == nil || p.Code != "not_waiting" || len(all) == 0 {
			return t, err
		}
		if _, err := d.Offer(ctx, a.Thread, all[0]); err != nil {
			return aim{}, err
		}
	}
}

// postOnce writes a comment with a key, unless that was done. It fails if an earlier attempt began a moment ago: the code host may list
// its comment late.
func (d *Dialogue) postOnce(ctx context.Context, a asked, key, body string) error {
	now := time.Now()
	begun, err := d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Post, Subject: postsOf(a.Thread), Key: "post:" + key}, post{Post: commandPosts + key}, store.Any)
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
		return errFresh
	}
	_, err = a.client.CreateComment(ctx, a.Repo, a.Number, marker.Add(body))
	return err
}
