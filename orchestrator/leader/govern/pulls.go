package govern

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Pull is a pull request that lattice opened for a run, as the audit log tells it.
type Pull struct {
	Forge  string
	Repo   forge.Path
	Number int64
	// Head is the commit that lattice pushed last to Branch.
	Branch, Head string
	At           time.Time // of that push

	remote string
}

// subjectOfPull returns the subject of the entries that name the runs of a pull request. Code hosts ignore the case of names.
func subjectOfPull(host string, p forge.Path, number int64) string {
	return strings.ToLower(fmt.Sprintf("pull:%s:%s#%d", host, p, number))
}

// opened is the body of an entry that names the run of a pull request.
type opened struct {
	Run string `json:"run_id"`
}

// linkPull records that an action opened a pull request, so that the run is found when people review it.
func (l *Ledger) linkPull(ctx context.Context, a lattice.Action, result json.RawMessage) error {
	var bound, done boundPull
	if json.Unmarshal(a.Binding, &bound) != nil || json.Unmarshal(result, &done) != nil || bound.Place == nil || done.Number == 0 {
		return nil // a person opened it
	}
	subject := subjectOfPull(bound.Place.Forge, bound.Place.Path, done.Number)
	return l.Record(ctx, audit.Pull, subject, subject+":"+a.RunID, opened{a.RunID})
}

// RunsOfPull returns the runs for which lattice opened a pull request, the newest first.
func (l *Ledger) RunsOfPull(host string, p forge.Path, number int64) (runs []string, err error) {
	err = l.Store.Audit(subjectOfPull(host, p, number), 0, func(e audit.Entry) error {
		var o opened
		err := json.Unmarshal(e.Body, &o)
		runs = append(runs, o.Run)
		return err
	})
	if err != nil {
		return nil, problem.StoreProblem(err)
	}
	slices.Reverse(runs)
	return runs, nil
}

// boundPull holds the members of the binding and of the result of a push or of a pull request that are used here.
type boundPull struct {
	Remote string       `json:"remote"`
	Place  *forge.Place `json:"place"`
	Number int64        `json:"number"`
	Branch string       `json:"branch"`
	Head   string       `json:"head"`
}

// Pulls returns the pull requests that lattice opened for a run, the oldest first.
func (l *Ledger) Pulls(run string) (all []Pull, err error) {
	err = l.eachAction(run, func(e audit.Entry, b actionBody) {
		var bound, done boundPull
		if json.Unmarshal(b.Binding, &bound) != nil || json.Unmarshal(b.Result, &done) != nil || done.Head == "" {
			return
		}
		known := false
		for i := range all {
			if p := &all[i]; p.remote == bound.Remote && p.Branch == done.Branch {
				p.Head, p.At = done.Head, e.At
				known = known || p.Number == done.Number
			}
		}
		if b.Action == protocol.ActionOpenPR && !known && bound.Place != nil && done.Number > 0 {
			all = append(all, Pull{Forge: bound.Place.Forge, Repo: bound.Place.Path, Number: done.Number, Branch: done.Branch, Head: done.Head, At: e.At, remote: bound.Remote})
		}
	}, audit.ActionPerformed)
	if err != nil {
		return nil, problem.StoreProblem(err)
	}
	return all, nil
}

// LastPush returns the commit that lattice pushed last for a run to a repository, "" if there is none.
func (l *Ledger) LastPush(run, repo string) (head string, err error) {
	err = l.eachAction(run, func(_ audit.Entry, b actionBody) {
		var bound, done boundPull
		if json.Unmarshal(b.Binding, &bound) == nil && json.Unmarshal(b.Result, &done) == nil && done.Head != "" && policy.RepositoryName(bound.Remote) == policy.RepositoryName(repo) {
			head = done.Head
		}
	}, audit.ActionPerformed)
	if err != nil {
		return "", problem.StoreProblem(err)
	}
	return head, nil
}
