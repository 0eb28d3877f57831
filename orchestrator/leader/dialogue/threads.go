package dialogue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Thread is an issue or a pull request of a code host.
type Thread struct {
	Host   string
	Repo   forge.Path
	Number int64
}

// String returns the name of the thread.
func (t Thread) String() string { return fmt.Sprintf("%s:%s#%d", t.Host, t.Repo, t.Number) }

// same reports whether both name one thread. Code hosts ignore the case of names.
func (t Thread) same(other Thread) bool {
	return t.Host == other.Host && t.Repo.Equal(other.Repo) && t.Number == other.Number
}

// ParseThread reads the name of a thread.
func ParseThread(s string) (Thread, bool) {
	var t Thread
	host, rest, ok := strings.Cut(s, ":")
	at := strings.LastIndexByte(rest, '#')
	if !ok || at < 0 {
		return t, false
	}
	t.Host = host
	if t.Repo, ok = forge.ParsePath(rest[:at]); !ok {
		return t, false
	}
	if _, err := fmt.Sscanf(rest[at:], "#%d", &t.Number); err != nil || t.String() != s {
		return t, false
	}
	return t, true
}

// runsOf returns the runs of a thread, the newest first: those with its name as their work item, and those for which lattice
// opened it as a pull request. At most limit of the first are returned; 0 are all.
func runsOf(ctx context.Context, runs Runs, facts *govern.Ledger, t Thread, limit int) ([]api.RunView, error) {
	all, err := runs.Runs(ctx, api.RunList{WorkItem: t.String(), Limit: limit})
	if err != nil {
		return nil, err
	}
	opened, err := facts.RunsOfPull(t.Host, t.Repo, t.Number)
	if err != nil {
		return nil, err
	}
	for _, id := range opened {
		if slices.ContainsFunc(all, func(r api.RunView) bool { return r.RunID == id }) {
			continue
		}
		v, err := runs.Run(ctx, id)
		switch {
		case isNotFound(err): // it was removed
		case err != nil:
			return nil, err
		default:
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b api.RunView) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, nil
}

func isNotFound(err error) bool {
	p := fault.As(err)
	return p != nil && p.Code == "run_not_found"
}

// threadsOf returns the threads of a run, and where it asks people: at its newest pull request, else at its work item.
func threadsOf(facts *govern.Ledger, v api.RunView) (all []Thread, asks Thread, err error) {
	if t, ok := ParseThread(v.WorkItem); ok {
		all, asks = append(all, t), t
	}
	pulls, err := facts.Pulls(v.RunID)
	if err != nil {
		return nil, asks, err
	}
	for _, p := range pulls {
		asks = Thread{p.Forge, p.Repo, p.Number}
		all = append(all, asks)
	}
	return all, asks, nil
}

// handlePull cancels the runs of a pull request that people took over: it has a commit that lattice did not push, or it is
// closed.
func (d *Dialogue) handlePull(ctx context.Context, host string, e hook.Delivery) (string, error) {
	t := Thread{host, e.Repo, e.Number}
	opened, err := d.Facts.RunsOfPull(host, e.Repo, e.Number)
	if err != nil || len(opened) == 0 {
		return "nothing to do", err
	}
	client, err := d.Hosts[host].Client()
	if err != nil {
		return "", err
	}
	self, err := client.Self(ctx)
	if err != nil {
		return settleError(err)
	}
	if e.Sender.ID == self.ID {
		return "nothing to do: lattice did it", nil
	}
	now, err := client.Pull(ctx, e.Repo, e.Number) // the delivery may be late
	if err != nil {
		return settleError(err)
	}
	runs, err := runsOf(ctx, d.Runs, d.Facts, t, 0)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.Status.Ended() || !slices.Contains(opened, r.RunID) {
			continue
		}
		pulls, err := d.Facts.Pulls(r.RunID)
		if err != nil {
			return "", err
		}
		why := ""
		for _, p := range pulls {
			switch {
			case !(Thread{p.Forge, p.Repo, p.Number}).same(t):
			case !now.Open:
				why = "closed the pull request"
			case e.Action == hook.Synchronized && now.Head.SHA != p.Head && e.Head != p.Head:
				why = fmt.Sprintf("pushed %.12s", now.Head.SHA)
			}
		}
		if why == "" {
			continue
		}
		if _, err := d.Runs.Cancel(ctx, r.RunID, nameUser(host, e.Sender)+", who "+why); err != nil {
			return "", err
		}
		return fmt.Sprintf("canceled %s: %s %s", r.RunID, e.Sender.Login, why), nil
	}
	return "nothing to do", nil
}
