package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
)

// Boards lists and changes the boards of repositories. A board is named by its folder's name, which may be left out where
// there is only one; a task by its short id, its id, or the beginning of its id.
type Boards interface {
	// ListBoards lists the boards of the settings.
	ListBoards(ctx context.Context) ([]BoardView, error)
	// Tasks lists tasks, the oldest first.
	Tasks(ctx context.Context, q TaskQuery) ([]TaskView, error)
	// Task returns a task with its history.
	Task(ctx context.Context, board, id string) (TaskDetail, error)
	// CreateTask creates a task, or returns the one that the key created before.
	CreateTask(ctx context.Context, board string, r TaskRequest) (TaskView, error)
	// ChangeTask moves, assigns and comments on a task. A move that the rules of the board refuse changes nothing.
	ChangeTask(ctx context.Context, board, id string, c TaskChange) (TaskView, error)
	// Workers lists the workers of a board.
	Workers(ctx context.Context, board string) ([]WorkerView, error)
	// Queue lists the requests for workers, the oldest first.
	Queue(ctx context.Context, board string) ([]worker.Request, error)
	// RequestWorker puts a request into the queue, or returns the one that the key put there before.
	RequestWorker(ctx context.Context, board string, r WorkerRequest) (worker.Request, error)
}

// BoardView is a board.
type BoardView struct {
	Name   string   `json:"name"`
	Folder string   `json:"folder"`
	Status []string `json:"statuses"` // of tasks, in the order of work
	// Problem says why the board cannot be read.
	Problem string `json:"problem,omitempty"`
}

// TaskQuery selects tasks.
type TaskQuery struct {
	Board, Status, Label, Assigned string
	All                            bool   // also those that are done or cancelled
	After                          string // only those behind this one
	Limit                          int    // 0 means all
}

// TaskView is a task of a board.
type TaskView struct {
	Board string `json:"board"`
	board.Task
	Badges []BadgeView `json:"badges,omitempty"`
}

// BadgeView says whether a task has an artifact that a completion policy asks for.
type BadgeView struct {
	board.Badge
	// Behind counts the commits since the commit of the artifact; it is left out if that is not known.
	Behind *int `json:"commits_since,omitempty"`
}

// TaskDetail is a task with its history.
type TaskDetail struct {
	TaskView
	Processes []board.ProcessRecord `json:"processes"`
	Events    []board.Event         `json:"events"`
	// Moves are the statuses that the task may be moved to now.
	Moves []string `json:"moves"`
}

// TaskRequest creates a task. Key makes creating twice the same as creating once.
type TaskRequest struct {
	Key         string   `json:"key,omitempty"`
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	Type        string   `json:"type,omitempty"`
	Status      string   `json:"status,omitempty"`
	Priority    string   `json:"priority,omitempty"`
	Labels      []string `json:"labels,omitempty"`
	AssignedTo  string   `json:"assigned_to,omitempty"`
}

// TaskChange is a change of a task. Members that are left out change nothing.
type TaskChange struct {
	Status     string  `json:"status,omitempty"` // to which it is moved
	Reason     string  `json:"reason,omitempty"` // of the move
	AssignedTo *string `json:"assigned_to,omitempty"`
	Comment    string  `json:"comment,omitempty"`
}

// WorkerView is a worker of a board.
type WorkerView struct {
	Board          string   `json:"board"`
	Name           string   `json:"name"`
	Description    string   `json:"description,omitempty"`
	Trigger        string   `json:"trigger"` // when it starts, in words
	OnStatus       string   `json:"on_status,omitempty"`
	MissingRole    string   `json:"missing_role,omitempty"`
	ManualOnly     bool     `json:"manual_only,omitempty"`
	TimeoutMinutes int      `json:"timeout_minutes"`
	Role           string   `json:"artifact_role,omitempty"` // of its report
	File           string   `json:"file,omitempty"`          // "" for a built-in one
	Running        []string `json:"running"`                 // tasks
}

// WorkerRequest asks for a worker to run on a task.
type WorkerRequest struct {
	Key    string `json:"key,omitempty"`
	Worker string `json:"worker"`
	Task   string `json:"task"`
	Commit string `json:"commit_sha,omitempty"` // default: the present one of the repository
}

func boardRoutes(s Boards) []route.Route {
	of := route.String("board", "the name of a board")
	return []route.Route{
		route.ListAll("/boards", "List the boards.", route.After, func(v BoardView) string { return v.Name }, func(r *http.Request) ([]BoardView, error) { return s.ListBoards(r.Context()) }),
		route.List("/tasks", "List tasks, the oldest first.", route.After, func(v TaskView) string { return v.ID }, func(r *http.Request, p exchange.Page) ([]TaskView, error) {
			return s.Tasks(r.Context(), TaskQuery{Board: r.FormValue("board"), Status: r.FormValue("status"), Label: r.FormValue("label"), Assigned: r.FormValue("assigned"), All: exchange.IsSet(r, "all"), After: p.Last, Limit: p.Limit})
		}, of, route.String("status", "only those in a status"), route.String("label", "only those with a label"), route.String("assigned", "only those assigned to an actor"),
			route.Bool("all", "also those that are done or cancelled")),
		route.Get("/tasks/{id}", "Return a task with its history.", func(r *http.Request) (TaskDetail, error) {
			return s.Task(r.Context(), r.FormValue("board"), r.PathValue("id"))
		}, of),
		route.AcceptKey(route.Post(route.Operator, "/tasks", "Create a task, or return the one that the key created before.", func(r *http.Request, in TaskRequest) (TaskView, error) {
			in.Key = route.Key(r, in.Key)
			return s.CreateTask(r.Context(), r.FormValue("board"), in)
		}, of)),
		route.Post(route.Operator, "/tasks/{id}", "Move, assign or comment on a task. The rules of the board decide about a move.", func(r *http.Request, in TaskChange) (TaskView, error) {
			return s.ChangeTask(r.Context(), r.FormValue("board"), r.PathValue("id"), in)
		}, of),
		route.ListAll("/workers", "List the workers of a board.", route.After, func(v WorkerView) string { return v.Board + "/" + v.Name }, func(r *http.Request) ([]WorkerView, error) { return s.Workers(r.Context(), r.FormValue("board")) }, of),
		route.ListAll("/queue", "List the requests for workers, the oldest first.", route.After, func(v worker.Request) string { return v.ID }, func(r *http.Request) ([]worker.Request, error) { return s.Queue(r.Context(), r.FormValue("board")) }, of),
		route.AcceptKey(route.Post(route.Admin, "/queue", "Ask for a worker to run on a task, or return the request that the key made before.", func(r *http.Request, in WorkerRequest) (worker.Request, error) {
			in.Key = route.Key(r, in.Key)
			return s.RequestWorker(r.Context(), r.FormValue("board"), in)
		}, of)),
	}
}

// Query returns q as the query of an address.
func (q TaskQuery) Query() url.Values {
	return queryOf("board", q.Board, "status", q.Status, "label", q.Label, "assigned", q.Assigned, route.After, q.After, "all", formatSet(q.All), "limit", formatSet(max(q.Limit, 0)))
}

// Wants reports whether q selects a task.
func (q TaskQuery) Wants(t *board.Task) bool {
	ended := t.Status == "done" || t.Status == board.Cancelled
	return (q.Status == t.Status || q.Status == "" && (q.All || !ended)) && (q.Label == "" || slices.Contains(t.Labels, q.Label)) && (q.Assigned == "" || q.Assigned == t.AssignedTo)
}
