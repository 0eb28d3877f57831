// Package thread knows the issues and pull requests of code hosts to which runs belong. Start with [Thread]. The package holds the names
// of threads and of their runs, the requests that people decide there, and the records of comments and reviews. Package scribe
// writes to a thread and package dialogue reads it; this package does neither.
//
// An issue or pull request is a thread, named FORGE:OWNER/NAME#NUMBER. Runs and intents with the name of a thread as their
// work item or subject belong to it.
package thread

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// Thread is an issue or a pull request of a code host.
type Thread struct {
	Host   string
	Repo   forge.Path
	Number int64
}

// String returns the name of the thread.
func (t Thread) String() string { return fmt.Sprintf("%s:%s#%d", t.Host, t.Repo, t.Number) }

// Same reports whether both name one thread. Code hosts ignore the case of names.
func (t Thread) Same(other Thread) bool {
	return t.Host == other.Host && t.Repo.Equal(other.Repo) && t.Number == other.Number
}

// Parse reads the name of a thread.
func Parse(s string) (Thread, bool) {
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

// OfPull returns the thread that is a pull request.
func OfPull(p govern.Pull) Thread { return Thread{p.Forge, p.Repo, p.Number} }

// NameUser names a user of a code host for people.
func NameUser(host string, u forge.User) string {
	return fmt.Sprintf("%s (%s:%d)", text.Line(u.Login), host, u.ID)
}

// Runs is the part of the leader that reads the runs and intents of a thread.
type Runs interface {
	Runs(ctx context.Context, which api.RunList) ([]api.RunView, error)
	Run(ctx context.Context, id string) (api.RunView, error)
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// GatedIntents returns the intents about a subject that people have to approve, the oldest first.
	GatedIntents(ctx context.Context, subject string) ([]intent.State, error)
}

// MaxShown bounds the runs of a thread that are shown, and whose questions boxes answer.
const MaxShown = 20

// FindRuns returns the runs of a thread, the newest first: those with its name as their work item, and those for which lattice
// opened it as a pull request. At most limit of the first are returned; 0 are all.
func FindRuns(ctx context.Context, runs Runs, facts *govern.Ledger, t Thread, limit int) ([]api.RunView, error) {
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
		switch p := fault.As(err); {
		case p != nil && p.Code == "run_not_found": // it was removed
		case err != nil:
			return nil, err
		default:
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b api.RunView) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, nil
}

const triageFlow = "issue-triage"

// PlanOf returns the plan for an issue that a run results in, "" if it results in something else.
func PlanOf(v api.RunView) string {
	var out struct {
		Plan string `json:"plan"`
	}
	if v.Flow != triageFlow || v.Status != lattice.Succeeded || v.IntentID == "" || json.Unmarshal(v.Outputs, &out) != nil {
		return ""
	}
	return out.Plan
}

// DescribeRun returns the part of a run that a status comment shows.
func DescribeRun(ctx context.Context, runs Runs, v api.RunView) (presence.Run, error) {
	r := presence.Run{ID: v.RunID, Flow: v.Flow, Status: v.Status}
	if v.Error != nil {
		r.Failure = v.Error.Message
	}
	for _, w := range v.Waits {
		if asked, ok := AwaitsReview(w); ok {
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
