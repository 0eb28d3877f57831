package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// QueueDir is the folder of a board that holds the requests.
const QueueDir = ".lattice/queue"

// keepEnded is how long a request stays in the queue after its end.
const keepEnded = 24 * time.Hour

// Statuses of requests. A status only goes forward.
const (
	Pending   = "pending"
	Claimed   = "claimed"
	Completed = "completed"
	Failed    = "failed"
)

var statuses = []string{Pending, Claimed, Completed, Failed}

// Request asks for a worker to run on a task. It is a file ID.json of the queue, which hooks and other programs may write (seed
// workers-design, "Queue File Format").
type Request struct {
	ID           string `json:"id"` // wq_ULID
	CreatedAt    string `json:"created_at"`
	TaskID       string `json:"task_id"`
	Worker       string `json:"worker"`
	TriggerEvent string `json:"trigger_event,omitempty"`
	Commit       string `json:"commit_sha,omitempty"` // default: the one that the dispatcher sees
	Status       string `json:"status"`
	RunID        string `json:"run_id,omitempty"` // of a claimed request, unless its worker runs in a worktree
	EndedAt      string `json:"ended_at,omitempty"`
	Error        string `json:"error,omitempty"` // why it failed
}

// NewRequest returns a pending request with a new id.
func NewRequest(worker, task, commit, event string, now time.Time) Request {
	return Request{
		ID: "wq_" + ulid.Make().String(), CreatedAt: now.UTC().Format(time.RFC3339Nano), TaskID: task, Worker: worker, Commit: commit, TriggerEvent: event, Status: Pending,
	}
}

// Run returns the id of the run that works on the request. It follows from the request's id: the store creates a run once, so
// a request has one run, whichever dispatchers start it and however often.
func (r Request) Run() string { return "run_" + lattice.StartKey(r.ID) }

// Ended reports whether nothing more happens with the request.
func (r Request) Ended() bool { return r.Status == Completed || r.Status == Failed }

// parseRequest reads the file of a request and checks it.
func parseRequest(name string, text []byte) (r Request, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("is not a request: %w", err)
	}
	r.Status = cmp.Or(r.Status, Pending)
	digits, ok := strings.CutPrefix(r.ID, "wq_")
	switch {
	case !ok || digits == "" || len(r.ID) > 64 || strings.Trim(digits, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") != "":
		return r, fmt.Errorf("has the id %q, which is not one such as wq_01", r.ID)
	case name != r.ID+".json":
		return r, fmt.Errorf("has the id %s, which is not the name of its file", r.ID)
	case r.TaskID == "" || r.Worker == "":
		return r, errors.New("has no task_id or no worker")
	case !slices.Contains(statuses, r.Status):
		return r, fmt.Errorf("has the status %q, not one of %s", r.Status, strings.Join(statuses, ", "))
	}
	return r, nil
}

// Queue is the queue of a board. Its methods may be called by several processes at once.
type Queue struct{ Board *board.Board }

// List returns the requests, the oldest first. Files that hold none are reported as problems.
func (q Queue) List() (list []Request, problems []string, err error) {
	entries, err := fs.ReadDir(q.Board.FS(), QueueDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list the queue: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		switch r, err := q.read(e.Name()); {
		case errors.Is(err, fs.ErrNotExist): // removed since
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s %v", path.Join(QueueDir, e.Name()), err))
		default:
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Request) int {
		x, _ := time.Parse(time.RFC3339, a.CreatedAt)
		y, _ := time.Parse(time.RFC3339, b.CreatedAt)
		return cmp.Or(x.Compare(y), cmp.Compare(a.ID, b.ID))
	})
	return list, problems, nil
}

func (q Queue) read(name string) (Request, error) {
	f, err := q.Board.FS().Open(path.Join(QueueDir, name))
	if err != nil {
		return Request{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDefinition))
	if err != nil {
		return Request{}, err
	}
	return parseRequest(name, text)
}

// Has reports whether the queue has a request.
func (q Queue) Has(id string) (bool, error) {
	_, err := q.read(id + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Add puts a request into the queue.
func (q Queue) Add(r Request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return q.Board.ReplaceFile(path.Join(QueueDir, r.ID+".json"), append(text, '\n'))
}

// Claim records that a run works on a request; "" for a command on this machine. It does nothing if the request is gone or has come as
// far.
func (q Queue) Claim(ctx context.Context, id, run string) error {
	return q.advance(ctx, id, Claimed, func(r *Request) { r.RunID = run })
}

// End takes the request with the id of last to the status, run and error of last. It does nothing if the request is gone or has ended.
func (q Queue) End(ctx context.Context, last Request, now time.Time) error {
	return q.advance(ctx, last.ID, last.Status, func(r *Request) {
		r.RunID, r.Error, r.EndedAt = cmp.Or(last.RunID, r.RunID), last.Error, now.UTC().Format(time.RFC3339Nano)
	})
}

// advance takes a request to a later status. The status follows from the events of the task, and is not synced.
func (q Queue) advance(ctx context.Context, id, status string, change func(*Request)) error {
	return q.Board.Amend(ctx, path.Join(QueueDir, id+".json"), func(text []byte) ([]byte, error) {
		r, err := parseRequest(id+".json", text)
		if err != nil || r.Ended() || slices.Index(statuses, status) <= slices.Index(statuses, r.Status) {
			return nil, err
		}
		r.Status = status
		change(&r)
		text, err = json.Marshal(r)
		return append(text, '\n'), err
	})
}

// RemoveEnded removes the requests that ended long ago.
func (q Queue) RemoveEnded(list []Request, now time.Time) error {
	for _, r := range list {
		if ended, err := time.Parse(time.RFC3339, r.EndedAt); err == nil && r.Ended() && now.After(ended.Add(keepEnded)) {
			if err := q.Board.RemoveFile(path.Join(QueueDir, r.ID+".json")); err != nil {
				return err
			}
		}
	}
	return nil
}

// AppendLog appends a line with the time to the log of a process. A log that cannot be written is reported to Warn.
func AppendLog(b *board.Board, r board.ProcessRecord, format string, args ...any) {
	line := time.Now().UTC().Format(time.RFC3339Nano) + " " + fmt.Sprintf(format, args...) + "\n"
	if err := b.AppendLog(r.EventID, strings.NewReader(line)); err != nil {
		b.Warn(fmt.Sprintf("write the log of %s: %v", r.Type, err))
	}
}

// RecordEnd appends the event that ends a process, with the changes that belong to it, and brings its request to its last status.
// If the process has ended already, it appends nothing.
func RecordEnd(ctx context.Context, b *board.Board, r board.ProcessRecord, kind string, data board.ProcessData, more ...board.Change) ([]board.Event, error) {
	now := time.Now()
	started, _ := time.Parse(time.RFC3339, r.StartedAt)
	data.Type, data.Commit, data.StartedEventID = r.Type, r.Commit, r.EventID
	data.DurationSeconds = now.Sub(started).Round(time.Second).Seconds()
	_, events, err := b.Update(ctx, r.TaskID, r.Actor, func(t *board.Task) ([]board.Change, error) {
		if !slices.ContainsFunc(t.Active, func(p board.Process) bool { return p.EventID == r.EventID }) {
			return nil, nil
		}
		return append(more, board.Change{Type: kind, Data: data}), nil
	})
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		AppendLog(b, r, "%s: %s", kind, cmp.Or(data.Error, data.Result))
	}
	status := Completed
	if kind == board.ProcessFailed {
		status = Failed
	}
	return events, Queue{b}.End(ctx, Request{ID: r.RequestID, RunID: r.RunID, Status: status, Error: data.Error}, now)
}
