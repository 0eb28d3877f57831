package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/board/mirror"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
	"github.com/spritekit/lattice/orchestrator/leader/inbox"
	"github.com/spritekit/lattice/orchestrator/leader/scribe"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Forge is a code host of the settings.
type Forge struct {
	Client func() (forge.Client, error)
	// Secret returns the secret that signs its webhooks, "" if there is none.
	Secret       func() (string, error)
	Repositories []forge.Path
	// Poll is how often it is asked for comments; 0 is never.
	Poll time.Duration
	// Forks takes commands in pull requests from forks.
	Forks bool
	// Labels shows the state of runs as labels.
	Labels bool
	// Plan is the request for the intent with which the command plan begins.
	Plan api.IntentRequest
	// Work is the request for the intent that carries out a plan, WorkLacks says which settings it needs, and Secrets are the values
	// of the variables that the settings hand to agents.
	Work      api.IntentRequest
	WorkLacks string
	Secrets   map[string]string
}

// presence holds the parts that act at code hosts by themselves.
type presence struct {
	scribe *scribe.Scribe
	mirror *mirror.Follower
}

// composeForges connects the parts that speak with people at code hosts.
func (l *Leader) composeForges() {
	if l.cfg.ObserveForges != nil {
		l.cfg.ObserveForges(l.Ledger.RecordRequest)
	}
	talk := &dialogue.Dialogue{Hosts: map[string]dialogue.Host{}, Facts: l.Ledger, Runs: l, Files: l.git.BaseFiles, Logger: l.cfg.Log}
	l.scribe = &scribe.Scribe{Hosts: map[string]scribe.Host{}, Facts: l.Ledger, Runs: l, Settle: talk.Settle, Offer: talk.Offer, Logger: l.cfg.Log}
	hosts := map[string]inbox.Host{}
	for name, f := range l.cfg.Forges {
		hosts[name] = inbox.Host{Secret: f.Secret, Repositories: f.Repositories, Poll: f.Poll, Client: func() (inbox.Client, error) { return f.Client() }}
		talk.Hosts[name] = dialogue.Host{Client: func() (dialogue.Client, error) { return f.Client() }, Plan: f.Plan, Work: f.Work, WorkLacks: f.WorkLacks, Secrets: f.Secrets, Forks: f.Forks}
		l.scribe.Hosts[name] = scribe.Host{Client: func() (scribe.Client, error) { return f.Client() }, Labels: f.Labels, Poll: f.Poll}
	}
	l.mirror = &mirror.Follower{Sources: l.cfg.Issues, Logger: l.cfg.Log, Hooks: func(ctx context.Context, b *board.Board, events []board.Event) error {
		return b.RunTrustedHooks(ctx, string(l.home), events, l.cfg.Environ, io.Discard)
	}}
	l.Inbox = inbox.New(hosts, l.Ledger, func(ctx context.Context, host string, e hook.Delivery) (string, error) {
		switch {
		case e.Kind == hook.Push:
			return l.handlePush(ctx, host, e)
		case e.Kind == hook.Issue && l.mirror.Wake(host, e.Repo):
			return "the board follows", nil
		case e.Kind == hook.Check:
			return l.scribe.WakeCommit(host, e.Repo, e.Head), nil
		}
		return talk.Handle(ctx, host, e)
	}, l.cfg.Log)
	l.Inbox.Settled = talk.Settled
	l.Pipeline.Changed = l.scribe.Wake
}

// handlePush creates the intents of the schedules that follow pushes to a repository.
func (l *Leader) handlePush(ctx context.Context, host string, e hook.Delivery) (string, error) {
	if l.cfg.Publisher == nil || strings.Trim(e.Head, "0") == "" { // the branch was deleted
		return "nothing to do", nil
	}
	ctx = caller.With(ctx, audit.Who{Name: "forge:" + host, UID: -1})
	created, err := l.Scheduler.RunPushed(ctx, e.Head, func(repo string) (bool, error) {
		place, found, err := l.cfg.Publisher.Find(ctx, repo)
		return found && place.Forge == host && place.Path.Equal(e.Repo) && e.HeadRef == "refs/heads/"+place.DefaultBranch, err
	})
	if problem, ok := errors.AsType[*forge.Problem](err); ok && problem.Final() {
		return "failed: " + problem.Error(), nil
	}
	if refused := fault.As(err); refused != nil && !refused.Retryable {
		return "refused: " + refused.Message, nil
	}
	if err != nil || len(created) == 0 {
		return "nothing to do", err
	}
	return "created " + strings.Join(created, ", "), nil
}

// readCI returns the verdict of a repository's CI about the commit that a run pushed last. ok is false without a verdict.
func (l *Leader) readCI(ctx context.Context, run, repo string) (commit string, green, ok bool, err error) {
	if l.cfg.Publisher == nil {
		return "", false, false, nil
	}
	commit, err = l.Ledger.LastPush(run, repo)
	if err != nil || commit == "" {
		return "", false, false, err
	}
	place, found, err := l.cfg.Publisher.Find(ctx, repo)
	host := l.cfg.Forges[place.Forge]
	if err != nil || !found || host.Client == nil {
		return "", false, false, err
	}
	client, err := host.Client()
	if err != nil {
		return "", false, false, err
	}
	all, err := client.Checks(ctx, place.Path, commit)
	if err != nil {
		return "", false, false, fmt.Errorf("read the CI of %s: %w", place.Path, err)
	}
	state, ok := forge.CombineChecks(all)
	return commit, state == forge.CheckSuccess, ok && state != forge.CheckPending, nil
}
