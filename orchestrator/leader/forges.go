package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
	"github.com/spritekit/lattice/orchestrator/leader/inbox"
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
	// Plan is the request for the intent with which the command plan begins.
	Plan api.IntentRequest
}

// composeForges connects the parts that speak with people at code hosts.
func (l *Leader) composeForges() {
	if l.cfg.ObserveForges != nil {
		l.cfg.ObserveForges(l.Ledger.RecordRequest)
	}
	talk := &dialogue.Dialogue{Hosts: map[string]dialogue.Host{}, Facts: l.Ledger, Runs: l, Logger: l.cfg.Log}
	hosts := map[string]inbox.Host{}
	for name, f := range l.cfg.Forges {
		hosts[name] = inbox.Host{Secret: f.Secret, Repositories: f.Repositories, Poll: f.Poll, Client: func() (inbox.Client, error) { return f.Client() }}
		talk.Hosts[name] = dialogue.Host{Client: func() (dialogue.Client, error) { return f.Client() }, Plan: f.Plan, Forks: f.Forks}
	}
	l.Inbox = inbox.New(hosts, l.Ledger, talk.Handle, l.cfg.Log)
	l.scribe = &dialogue.Scribe{Hosts: talk.Hosts, Facts: l.Ledger, Runs: l, Settle: talk.Settle, Logger: l.cfg.Log}
}

// followForges handles deliveries and shows runs. The function that it returns ends both.
func (l *Leader) followForges() (stop func()) {
	stopInbox, stopScribe := l.Inbox.FollowInBackground(), l.scribe.FollowInBackground()
	return func() {
		stopInbox()
		stopScribe()
	}
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
