// Package leftover finds the state that killed or interrupted programs left behind, and repairs it: processes of a board beyond
// their timeout, requests that no worker can take, leases whose holders died, worktrees without a folder, runs that no leader drives,
// outboxes that none has read, sprites of runs that have ended, sprites of runs that are not known.
//
// Start with [OfBoard], [OfRepository], [OfWorkers], [OfLeader] and [OfSprites]. They only look; [Leftover.Fix] repairs.
package leftover

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/checkout"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Leftover is one thing that was left behind.
type Leftover struct {
	Kind   string `json:"kind"` // process, request, worktree, run, outbox, lease or sprite
	Name   string `json:"name"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"` // the repair in words, or a command for things that are not repaired here
	Fixed  bool   `json:"fixed,omitempty"`
	Error  string `json:"error,omitempty"` // why the repair failed

	repair func(context.Context) error // nil if a person must act
}

// Repairable reports whether Fix does anything.
func (l Leftover) Repairable() bool { return l.repair != nil }

// Fix repairs what can be repaired and returns the outcome.
func (l Leftover) Fix(ctx context.Context) Leftover {
	if l.repair == nil {
		return l
	}
	if err := l.repair(ctx); err != nil {
		l.Error = err.Error()
	} else {
		l.Fixed = true
	}
	return l
}

// waitLimit is the time after which a pending request suggests that nothing works on the queue.
const waitLimit = time.Hour

// OfBoard returns the leftovers of a board and its queue. home is the state directory. cancel cancels a run; it does nothing if the
// run does not exist.
func OfBoard(b *board.Board, home string, now time.Time, cancel func(ctx context.Context, run string) error) ([]Leftover, error) {
	workers, err := worker.Load(b.FS(), b.Config)
	if err != nil {
		return nil, err
	}
	tasks, err := b.Tasks()
	if err != nil {
		return nil, err
	}
	var all []Leftover
	names, working, lostLeases := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, t := range tasks {
		names[t.ID] = t.ID
		if t.ShortID != "" {
			names[t.ID], names[t.ShortID] = t.ShortID, t.ShortID
		}
		events, err := b.History(t.ID)
		if err != nil {
			return nil, err
		}
		for _, r := range board.Processes(events) {
			working[r.RequestID] = working[r.RequestID] || r.EndedAt == ""
			lost, err := checkout.IsLost(b, r)
			if err != nil {
				return nil, err
			}
			if lost && r.EndedAt == "" {
				lostLeases[checkout.LeaseName(r.RequestID)] = true // its repair ends the lease, too
				all = append(all, Leftover{
					Kind: "process", Name: r.Type + " on " + names[t.ID], Detail: "has lost its dispatcher, which ended before it", Remedy: "end it, remove its worktree, and record that it failed",
					repair: func(ctx context.Context) error {
						_, err := checkout.Recover(ctx, b, home, r, func(reason string) error {
							_, err := worker.RecordEnd(ctx, b, r, board.ProcessFailed, board.ProcessData{Error: reason})
							return err
						})
						return err
					},
				})
			} else if r.EndedAt == "" && worker.Late(r, now) {
				all = append(all, Leftover{
					Kind: "process", Name: r.Type + " on " + names[t.ID], repair: func(ctx context.Context) error { return endProcess(ctx, b, r, cancel) },
					Detail: fmt.Sprintf("has run since %s, beyond its timeout of %d minutes", r.StartedAt, worker.TimeoutMinutes(r)), Remedy: "cancel its run, and record that it failed",
				})
			}
		}
	}
	leases, err := b.LostLeases()
	if err != nil {
		return nil, err
	}
	for _, name := range leases {
		if lostLeases[name] {
			continue
		}
		all = append(all, Leftover{
			Kind: "lease", Name: name, Detail: "is held by no program, and no worker runs under it", Remedy: "remove it",
			repair: func(context.Context) error {
				l, err := b.TakeLost(name)
				if err != nil || l == nil {
					return err
				}
				return l.End()
			},
		})
	}
	queue := worker.Queue{Board: b}
	requests, problems, err := queue.List()
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		name, problem, _ := strings.Cut(p, " ")
		all = append(all, Leftover{
			Kind: "request", Name: name, Detail: problem, Remedy: "rename it to " + name + ".bad",
			repair: func(context.Context) error { return b.RenameFile(name, name+".bad") },
		})
	}
	for _, q := range requests {
		if l, ok := judgeRequest(q, workers, names[q.TaskID] != "", working[q.ID], now); ok {
			if l.Remedy == markFailed {
				l.repair = func(ctx context.Context) error {
					return queue.End(ctx, worker.Request{ID: q.ID, Status: worker.Failed, Error: l.Detail}, now)
				}
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// endProcess cancels the run of a process and records that it failed. The hooks of the board do not run.
func endProcess(ctx context.Context, b *board.Board, r board.ProcessRecord, cancel func(context.Context, string) error) error {
	if r.RunID != "" {
		if err := cancel(ctx, r.RunID); err != nil {
			return err
		}
	}
	_, err := worker.RecordEnd(ctx, b, r, board.ProcessFailed, board.ProcessData{Error: "it was beyond its timeout, and did not end"})
	return err
}

const markFailed = "mark it as failed"

// judgeRequest says whether a request is a leftover.
func judgeRequest(q worker.Request, workers []worker.Definition, hasTask, working bool, now time.Time) (l Leftover, ok bool) {
	l = Leftover{Kind: "request", Name: q.ID, Remedy: markFailed}
	created, _ := time.Parse(time.RFC3339, q.CreatedAt)
	_, err := worker.Find(workers, q.Worker)
	switch {
	case q.Ended() || working:
		return l, false
	case !hasTask:
		l.Detail = "names the task " + q.TaskID + ", which the board does not have"
	case err != nil:
		l.Detail = err.Error()
	case q.Status == worker.Claimed:
		l.Detail = "is claimed, and no process works on it"
	case now.After(created.Add(waitLimit)):
		l.Detail, l.Remedy = "waits since "+q.CreatedAt, "lattice worker watch"
	default:
		return l, false
	}
	return l, true
}

// OfRepository returns the worktrees of a repository whose folders are gone.
func OfRepository(ctx context.Context, dir string) ([]Leftover, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "worktree", "prune", "--dry-run", "--verbose", "--expire=now").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("list the worktrees of %s: %w", dir, err)
	}
	var all []Leftover
	for line := range strings.Lines(string(out)) {
		name, reason, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "Removing worktrees/"), ": ")
		if !ok {
			continue
		}
		all = append(all, Leftover{Kind: "worktree", Name: name, Detail: reason, Remedy: "git worktree prune", repair: func(ctx context.Context) error {
			return exec.CommandContext(ctx, "git", "-C", dir, "worktree", "prune", "--expire=now").Run()
		}})
	}
	return all, nil
}

// OfWorkers returns the worktrees of workers, in a state directory, that no active process of the board has.
func OfWorkers(ctx context.Context, b *board.Board, home string) ([]Leftover, error) {
	folders, err := checkout.List(ctx, b.Root)
	if err != nil {
		return nil, err
	}
	folders = slices.DeleteFunc(folders, func(f string) bool { return f != checkout.FolderOf(home, f) })
	if len(folders) == 0 {
		return nil, nil
	}
	tasks, err := b.Tasks()
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		events, err := b.History(t.ID)
		if err != nil {
			return nil, err
		}
		for _, r := range board.Processes(events) {
			folders = slices.DeleteFunc(folders, func(f string) bool { return r.EndedAt == "" && f == checkout.FolderOf(home, r.Worktree) })
		}
	}
	var all []Leftover
	for _, f := range folders {
		all = append(all, Leftover{Kind: "worktree", Name: f, Detail: "belongs to no worker that runs", Remedy: "remove it", repair: func(ctx context.Context) error { return checkout.Clean(ctx, b.Root, f, "") }})
	}
	return all, nil
}

// OfLeader returns the leftovers that a leader knows.
func OfLeader(ctx context.Context, c *api.Client) ([]Leftover, error) {
	runs, err := c.Runs(ctx, api.RunList{Open: true})
	if err != nil {
		return nil, err
	}
	var all []Leftover
	for _, r := range runs {
		drive := sync.OnceValue(func() error { // it reads the outbox, too
			_, err := c.Drive(ctx, r.RunID, api.DriveRequest{Detach: true})
			return err
		})
		for _, l := range judgeRun(r) {
			l.repair = func(context.Context) error { return drive() }
			all = append(all, l)
		}
	}
	request := api.PruneRequest{Keep: keepSprites, DryRun: true}
	pruned, err := c.Prune(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	request.DryRun = false
	for _, p := range pruned {
		all = append(all, Leftover{Kind: p.Kind, Name: p.Name, Detail: "is of a run that has ended, or unused for long", Remedy: "lattice sprite prune", repair: func(ctx context.Context) error {
			_, err := c.Prune(ctx, request, nil)
			return err
		}})
	}
	return all, nil
}

// OfSprites returns the sprites that were made for runs which the leader does not know, such as after an older store was restored. owners
// are the runs by the names of their sprites, all of one host that no other leader uses.
func OfSprites(ctx context.Context, c *api.Client, owners map[string]string, remove func(ctx context.Context, sprite string) error) ([]Leftover, error) {
	var all []Leftover
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		_, err := c.Run(ctx, owners[name])
		if err == nil {
			continue
		}
		if gone := fault.As(err); gone == nil || gone.Code != "run_not_found" {
			return nil, err
		}
		all = append(all, Leftover{
			Kind: "sprite", Name: name, Detail: "was made for " + owners[name] + ", which is not known here", Remedy: "lattice sprite rm " + name,
			repair: func(ctx context.Context) error { return remove(ctx, name) },
		})
	}
	return all, nil
}

// keepSprites is how many of the newest ended runs keep their sprites, as with lattice sprite prune.
const keepSprites = 10

// judgeRun returns the leftovers of a run whose leader was killed: the run, and the outbox of its sprite, which only a leader that drives
// the run reads.
func judgeRun(r api.RunView) (all []Leftover) {
	if r.Driving || r.Status != lattice.Running && r.Status != lattice.Pending {
		return nil
	}
	resume := "lattice resume " + r.RunID
	all = []Leftover{{Kind: "run", Name: r.RunID, Detail: "is " + string(r.Status) + ", and no leader drives it", Remedy: resume}}
	if r.Status == lattice.Running && r.Sprite != "" {
		all = append(all, Leftover{Kind: "outbox", Name: r.Sprite, Detail: "may hold events that the journal of " + r.RunID + " lacks: no leader has read it since the run was left", Remedy: resume})
	}
	return all
}
