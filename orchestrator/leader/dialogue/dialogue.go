// Package dialogue carries out the commands in comments at a code host. Start with [Dialogue.Handle], which handles a
// delivery. Package comment recognizes commands. The person's role, which is read from the code host at that moment, and the
// policy decide whether the person may give one. The leader performs it.
//
// A delivery can be handled twice. Decisions and intents are idempotent by themselves; an entry of the audit log with the
// comment and its line as key says that a command was carried out.
package dialogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// Client is the part of forge.Client that is used.
type Client interface {
	gather.Client
	Repository(ctx context.Context, p forge.Path) (forge.Repository, error)
	Comment(ctx context.Context, p forge.Path, id int64) (forge.Comment, error)
	CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error)
	React(ctx context.Context, p forge.Path, comment int64, r forge.Reaction) error
	Pull(ctx context.Context, p forge.Path, number int64) (forge.PullRequest, error)
	Checks(ctx context.Context, p forge.Path, sha string) ([]forge.Check, error)
}

// Runs is the part of the leader that decides about runs and intents.
type Runs interface {
	thread.Runs
	Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error)
	Drive(ctx context.Context, id string, r api.DriveRequest) (api.RunView, error)
	Stop(ctx context.Context, id string) (api.RunView, error)
	Cancel(ctx context.Context, id, by string) (api.RunView, error)
	CreateIntent(ctx context.Context, r api.IntentRequest) (intent.State, error)
	Intent(ctx context.Context, id string) (intent.State, error)
	DecideIntent(ctx context.Context, id string, d api.IntentDecision) (intent.State, error)
	ResumeIntent(ctx context.Context, key string, values api.Values) (s intent.State, found bool, err error)
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
}

// values returns the values of the variables that the settings hand to agents. A run gets those that it names; others of the leader stay
// with it.
func (h Host) values() api.Values { return api.Values{Secrets: h.Secrets} }

// Dialogue answers people.
type Dialogue struct {
	Hosts map[string]Host
	Facts *govern.Ledger
	Runs  Runs
	// Files lists the files of the commit with which work in a repository begins.
	Files  func(ctx context.Context, repo string) ([]string, error)
	Logger zerolog.Logger
}

// connect returns the connection to a code host, and the account of lattice there.
func (d *Dialogue) connect(ctx context.Context, host string) (client Client, self forge.User, err error) {
	if client, err = d.Hosts[host].Client(); err == nil {
		self, err = client.Self(ctx)
	}
	return client, self, err
}

// asked is a command of a person, on its way.
type asked struct {
	comment.Command
	gather.Source
	client Client
	person forge.User
	fork   bool   // the pull request comes from a fork, and the settings do not take those
	box    string // the digest of the request whose box was ticked; "" of a command in a comment
	ticked time.Time
}

// entryName returns the name of the command in the keys of entries. Several people may tick one box, and one person again after a refusal.
func (a asked) entryName() string {
	name := fmt.Sprintf("%s:%d:%d", a.Host, a.Comment, a.Line)
	if a.box != "" {
		name += fmt.Sprintf(":%d:%d", a.person.ID, a.ticked.Unix())
	}
	return name
}

// settleError turns an error that asking again does not change into the outcome of a delivery.
func settleError(err error) (string, error) {
	if p, ok := errors.AsType[*forge.Problem](err); ok && p.Final() {
		return "failed: " + p.Error(), nil
	}
	return "", err
}

// personOf returns a user as the audit log names people: by number, because another one may take over the login.
func personOf(host string, u forge.User) audit.Who {
	return audit.Who{Name: fmt.Sprintf("%s:%d", host, u.ID), UID: -1, Login: u.Login, Bot: u.Bot}
}
