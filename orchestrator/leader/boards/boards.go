// Package boards serves the boards of repositories to the page and to callers of the interface (api.Boards). Start with [Boards].
//
// A board is files, which commands change at the same time: each call opens the board, and the rules that refuse a change are those
// of package board. A change is recorded in the audit log before it is made. The package starts no worker; a request in the queue
// waits for lattice worker watch.
package boards

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Recorder appends entries to the audit log.
type Recorder interface {
	Record(ctx context.Context, kind audit.Kind, subject, key string, body any) error
}

// History reads the commits of a repository on this machine.
type History interface {
	// FindCommit returns the id of the commit that a revision names.
	FindCommit(ctx context.Context, repository, revision string) (string, error)
	// CountSince counts the commits of HEAD that a commit does not reach.
	CountSince(ctx context.Context, repository, commit string) (int, error)
}

// Boards serves the boards of some folders.
type Boards struct {
	Folders []string
	Facts   Recorder
	Git     History
	// Home is the state directory, which lists the hooks that the user trusts. Environ is theirs.
	Home    string
	Environ []string
	Warn    func(text string)
}

// nameOf returns the name of the board of a folder: the last element of its path, or all of it if another board has the same.
func (s *Boards) nameOf(folder string) string {
	name := filepath.Base(folder)
	for _, f := range s.Folders {
		if f != folder && filepath.Base(f) == name {
			return folder
		}
	}
	return name
}

// openBoard opens a board by its name, "" for the only one. The caller closes it.
func (s *Boards) openBoard(name string) (*board.Board, error) {
	folders := s.Folders
	if name != "" {
		folders = slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return s.nameOf(f) != name })
	}
	switch {
	case len(s.Folders) == 0:
		return nil, fault.NotFound("no_board", "the leader shows no board").WithHint("set boards in the settings, or start lattice serve in a repository with a board")
	case len(folders) == 0:
		return nil, fault.NotFound("no_board", "the leader shows no board %.100q", name).WithHint("one of %s", strings.Join(s.listNames(), ", "))
	case len(folders) > 1:
		return nil, fault.BadInput("board_ambiguous", "there are %d boards", len(folders)).WithHint("add ?board= with one of %s", strings.Join(s.listNames(), ", "))
	}
	b, err := board.Open(folders[0])
	if err != nil {
		return nil, err
	}
	b.Warn = s.Warn
	return b, nil
}

func (s *Boards) listNames() (names []string) {
	for _, f := range s.Folders {
		names = append(names, s.nameOf(f))
	}
	return names
}

// withBoard opens a board for one call.
func withBoard[T any](s *Boards, name string, do func(*board.Board) (T, error)) (out T, err error) {
	b, err := s.openBoard(name)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return do(b)
}

// ListBoards lists the boards (api.Boards).
func (s *Boards) ListBoards(context.Context) ([]api.BoardView, error) {
	views := []api.BoardView{}
	for _, folder := range s.Folders {
		v := api.BoardView{Name: s.nameOf(folder), Folder: folder, Status: []string{}}
		if b, err := board.Open(folder); err != nil {
			v.Problem = exchange.AsFault(err).Fault.Message
		} else {
			v.Status = b.Config.Workflow.Statuses
			if err := b.Close(); err != nil {
				return nil, err
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// Tasks lists tasks (api.Boards).
func (s *Boards) Tasks(ctx context.Context, q api.TaskQuery) ([]api.TaskView, error) {
	return withBoard(s, q.Board, func(b *board.Board) ([]api.TaskView, error) {
		if q.Status != "" && !slices.Contains(b.Config.Workflow.Statuses, q.Status) {
			return nil, fault.BadInput("status_unknown", "the board has no status %.100q", q.Status).WithHint("one of %s", strings.Join(b.Config.Workflow.Statuses, ", "))
		}
		tasks, err := b.Tasks()
		if err != nil {
			return nil, err
		}
		if q.After != "" {
			i := slices.IndexFunc(tasks, func(t *board.Task) bool { return t.ID == q.After })
			if i < 0 {
				return nil, fault.NotFound("task_not_found", "the board has no task %.100q", q.After).WithHint("begin with the first page again")
			}
			tasks = tasks[i+1:]
		}
		views, since := []api.TaskView{}, s.newCounter(ctx, b)
		for _, t := range tasks {
			if q.Wants(t) {
				views = append(views, s.describeTask(b, t, since))
			}
			if q.Limit > 0 && len(views) == q.Limit {
				break
			}
		}
		return views, nil
	})
}

// maxCounted bounds the commits for which one call asks git.
const maxCounted = 50

// newCounter returns a function that counts the commits since a commit, nil if that is not known. It asks once for each commit.
func (s *Boards) newCounter(ctx context.Context, b *board.Board) func(commit string) *int {
	known := map[string]*int{}
	return func(commit string) *int {
		if n, ok := known[commit]; ok || commit == "" || len(known) == maxCounted {
			return n
		}
		known[commit] = nil
		if n, err := s.Git.CountSince(ctx, b.Root, commit); err == nil {
			known[commit] = &n
		}
		return known[commit]
	}
}

func (s *Boards) describeTask(b *board.Board, t *board.Task, since func(commit string) *int) api.TaskView {
	v := api.TaskView{Board: s.nameOf(b.Root), Task: *t}
	for _, badge := range b.Config.Badges(t) {
		view := api.BadgeView{Badge: badge}
		if badge.Has != nil && t.Status != "done" { // of work that is done it does not matter
			view.Behind = since(badge.Has.Commit)
		}
		v.Badges = append(v.Badges, view)
	}
	return v
}

// Task returns a task with its history (api.Boards).
func (s *Boards) Task(ctx context.Context, name, id string) (api.TaskDetail, error) {
	return withBoard(s, name, func(b *board.Board) (out api.TaskDetail, err error) {
		t, err := b.Resolve(id)
		if err != nil {
			return out, err
		}
		if out.Events, err = b.History(t.ID); err != nil {
			return out, err
		}
		out.TaskView, out.Processes, out.Moves = s.describeTask(b, t, s.newCounter(ctx, b)), append([]board.ProcessRecord{}, board.Processes(out.Events)...), []string{}
		for _, status := range b.Config.Workflow.Statuses {
			if status != t.Status && b.Config.CheckMove(t, status) == nil {
				out.Moves = append(out.Moves, status)
			}
		}
		return out, nil
	})
}

// actorOf returns the caller as an actor of events.
func actorOf(ctx context.Context) string {
	name := "unknown"
	if who := caller.Of(ctx); who != nil {
		name = who.Name
	}
	actor := "human:" + strings.Map(func(r rune) rune {
		if board.CheckActor("human:"+string(r)) != nil {
			return '-'
		}
		return r
	}, name)
	return actor[:min(len(actor), 100)]
}

// taskEntry is the body of an entry about a change of a board.
type taskEntry struct {
	Board   string `json:"board"`
	Actor   string `json:"actor"`
	Request any    `json:"request"`
}

// record notes a change before it is made.
func (s *Boards) record(ctx context.Context, b *board.Board, task, key string, request any) error {
	return s.Facts.Record(ctx, audit.Task, "task:"+task, key, taskEntry{s.nameOf(b.Root), actorOf(ctx), request})
}

// finish runs the hooks of a change, and returns the task.
func (s *Boards) finish(ctx context.Context, b *board.Board, t *board.Task, events []board.Event) (api.TaskView, error) {
	err := b.RunTrustedHooks(context.WithoutCancel(ctx), s.Home, events, s.Environ, io.Discard)
	return s.describeTask(b, t, s.newCounter(ctx, b)), err
}

// idOf returns the id that follows from a key, so that a request that comes twice counts once.
func idOf(key string) string {
	if key == "" {
		return ulid.Make().String()
	}
	sum := sha256.Sum256([]byte(key))
	return ulid.ULID(sum[:16]).String()
}

// CreateTask creates a task (api.Boards).
func (s *Boards) CreateTask(ctx context.Context, name string, r api.TaskRequest) (api.TaskView, error) {
	return withBoard(s, name, func(b *board.Board) (api.TaskView, error) {
		d := board.CreatedData{Title: r.Title, Description: r.Description, Type: r.Type, Status: r.Status, Priority: r.Priority, Labels: r.Labels, AssignedTo: r.AssignedTo}
		id := "task_" + idOf(r.Key)
		if err := s.record(ctx, b, id, "created:"+id, r); err != nil {
			return api.TaskView{}, err
		}
		t, events, err := b.Create(ctx, actorOf(ctx), id, d)
		if err != nil {
			return api.TaskView{}, err
		}
		return s.finish(ctx, b, t, events)
	})
}

// ChangeTask moves, assigns and comments on a task (api.Boards).
func (s *Boards) ChangeTask(ctx context.Context, name, id string, c api.TaskChange) (api.TaskView, error) {
	return withBoard(s, name, func(b *board.Board) (api.TaskView, error) {
		t, err := b.Resolve(id)
		if err != nil {
			return api.TaskView{}, err
		}
		decide := func(t *board.Task) (changes []board.Change, err error) {
			if c.AssignedTo != nil {
				changes, err = board.Assign(t, *c.AssignedTo)
				assigned := *t // a policy may ask for the assignment with which it comes
				assigned.AssignedTo, t = *c.AssignedTo, &assigned
			}
			var more []board.Change
			if c.Status != "" && c.Status != t.Status && err == nil {
				from := t.Status
				err = b.Config.CheckMove(t, c.Status)
				more = []board.Change{{Type: board.StatusChanged, Data: board.ChangeData{From: &from, To: c.Status, Reason: c.Reason}}}
			}
			changes, more = append(changes, more...), nil
			if c.Comment != "" && err == nil {
				more, err = board.AddComment(c.Comment)
			}
			return append(changes, more...), err
		}
		changes, err := decide(t)
		if err != nil {
			return api.TaskView{}, err
		}
		if len(changes) > 0 {
			if err := s.record(ctx, b, t.ID, "", c); err != nil {
				return api.TaskView{}, err
			}
		}
		t, events, err := b.Update(ctx, t.ID, actorOf(ctx), decide) // decides again, on the task as it is then
		if err != nil {
			return api.TaskView{}, err
		}
		return s.finish(ctx, b, t, events)
	})
}

// Workers lists workers (api.Boards).
func (s *Boards) Workers(_ context.Context, name string) ([]api.WorkerView, error) {
	return withBoard(s, name, func(b *board.Board) ([]api.WorkerView, error) {
		all, err := worker.Load(b.FS(), b.Config)
		if err != nil {
			return nil, err
		}
		tasks, err := b.Tasks()
		if err != nil {
			return nil, err
		}
		views := []api.WorkerView{}
		for _, d := range all {
			v := api.WorkerView{Board: s.nameOf(b.Root), Name: d.Worker.Name, Description: d.Worker.Description, Trigger: d.Trigger.String(), OnStatus: d.Trigger.OnStatus, MissingRole: d.Trigger.MissingRole,
				ManualOnly: d.Trigger.ManualOnly, TimeoutMinutes: d.Execution.TimeoutMinutes, Role: d.Output.ArtifactRole, File: d.File, Running: []string{}}
			for _, t := range tasks {
				if slices.ContainsFunc(t.Active, func(p board.Process) bool { return p.Type == d.Worker.Name }) {
					v.Running = append(v.Running, t.Name())
				}
			}
			views = append(views, v)
		}
		return views, nil
	})
}

// Queue lists requests (api.Boards).
func (s *Boards) Queue(_ context.Context, name string) ([]worker.Request, error) {
	return withBoard(s, name, func(b *board.Board) ([]worker.Request, error) {
		list, problems, err := worker.Queue{Board: b}.List()
		for _, p := range problems {
			s.Warn(p)
		}
		return list, err
	})
}

// RequestWorker puts a request into the queue (api.Boards).
func (s *Boards) RequestWorker(ctx context.Context, name string, r api.WorkerRequest) (worker.Request, error) {
	return withBoard(s, name, func(b *board.Board) (worker.Request, error) {
		all, err := worker.Load(b.FS(), b.Config)
		if err != nil {
			return worker.Request{}, err
		}
		w, err := worker.Find(all, r.Worker)
		if err != nil {
			return worker.Request{}, err
		}
		t, err := b.Resolve(r.Task)
		if err != nil {
			return worker.Request{}, err
		}
		commit, err := s.Git.FindCommit(ctx, b.Root, cmp.Or(r.Commit, "HEAD"))
		if err != nil {
			return worker.Request{}, err
		}
		queue := worker.Queue{Board: b}
		q := worker.NewRequest(w.Worker.Name, t.ID, commit, "", time.Now())
		if r.Key != "" {
			q.ID = "wq_" + idOf(r.Key)
			list, _, err := queue.List()
			if err != nil {
				return q, err
			}
			if i := slices.IndexFunc(list, func(known worker.Request) bool { return known.ID == q.ID }); i >= 0 {
				return list[i], nil
			}
		}
		if err := s.record(ctx, b, t.ID, "", q); err != nil {
			return worker.Request{}, err
		}
		return q, queue.Add(q)
	})
}
