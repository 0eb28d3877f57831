package dashboard

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// boardPages are the pages of boards: tasks, and the workers that react to them.
type boardPages struct{ *Dashboard }

func (d boardPages) routes() []pageRoute {
	return []pageRoute{
		{"GET /tasks", "GET /tasks", d.showTasks},
		{"GET /tasks/{id}", "GET /tasks/{id}", d.showTask},
		{"GET /workers", "GET /workers", d.showWorkers},
		{"POST /tasks", "POST /tasks", func(v *visit) error {
			t, err := d.leader.CreateTask(v.ctx, v.board(), api.TaskRequest{Key: v.PostFormValue("key"), Title: v.PostFormValue("title")})
			return v.backTo(taskPath(t.Board, t.ID), err)
		}},
		{"POST /tasks/{id}", "POST /tasks/{id}", func(v *visit) error {
			change := api.TaskChange{Status: v.PostFormValue("status"), Reason: v.PostFormValue("reason"), Comment: v.PostFormValue("comment")}
			if v.PostForm.Has("assigned") {
				assigned := strings.TrimSpace(v.PostFormValue("assigned"))
				change.AssignedTo = &assigned
			}
			t, err := d.leader.ChangeTask(v.ctx, v.board(), v.PathValue("id"), change)
			return v.backTo(taskPath(t.Board, t.ID), err)
		}},
		{"POST /queue", "POST /queue", func(v *visit) error {
			_, err := d.leader.RequestWorker(v.ctx, v.board(), api.WorkerRequest{Key: v.PostFormValue("key"), Worker: v.PostFormValue("worker"), Task: v.PostFormValue("task")})
			return v.backTo("/workers?"+url.Values{"board": {v.board()}}.Encode(), err)
		}},
	}
}

// board returns the name of the board in the address, "" for the only one.
func (v *visit) board() string { return v.FormValue("board") }

func taskPath(board, id string) string {
	return "/tasks/" + url.PathEscape(id) + "?" + url.Values{"board": {board}}.Encode()
}

// boardPage holds the content of each page about a board.
type boardPage struct {
	Boards []api.BoardView
	Board  api.BoardView // the one that is shown; without a name if there is none
	Tab    string
}

// loadBoard finds the board of the address, or else the first one.
func (d boardPages) loadBoard(v *visit, tab string) (p boardPage, err error) {
	p.Tab = tab
	if p.Boards, err = d.leader.ListBoards(v.ctx); err != nil || len(p.Boards) == 0 {
		return p, err
	}
	if v.board() == "" {
		p.Board = p.Boards[0]
		return p, nil
	}
	i := slices.IndexFunc(p.Boards, func(b api.BoardView) bool { return b.Name == v.board() })
	if i < 0 {
		return p, fault.NotFound("no_board", "there is no board %.100q", v.board()).WithHint("the setting boards lists them")
	}
	p.Board = p.Boards[i]
	return p, nil
}

// Bounds of what a page about a board shows.
const (
	maxShown      = 40 // artifacts and comments of a task, the newest
	cardsInColumn = 12
	cardsOnPage   = 60
)

// card is a task on a board.
type card struct {
	api.TaskView
	Running []board.Process
	Badges  []badge
}

// badge is an artifact that a completion policy asks for, in words.
type badge struct{ Class, Sign, Text string }

// column is a status with its tasks.
type column struct {
	Status string
	Cards  []card
	More   int // that are not shown
}

func makeCard(t api.TaskView) card {
	return card{t, t.Active, makeBadges(t.Badges)}
}

// makeBadges says what a task has and needs, as the seed does: "Has: review @ abc1234 (+3 commits since)".
func makeBadges(views []api.BadgeView) (badges []badge) {
	for _, b := range views {
		if b.Has == nil {
			badges = append(badges, badge{"attention", "◇", "Needs: " + b.Role})
			continue
		}
		made := badge{"good", "✓", "Has: " + b.Role}
		if b.Has.Commit != "" {
			made.Text += " @ " + text.Cut(b.Has.Commit, 7)
		}
		if b.Behind != nil && *b.Behind > 0 {
			made.Class, made.Sign = "attention", "▲"
			made.Text += fmt.Sprintf(" (+%d commits since)", *b.Behind)
			if *b.Behind == 1 {
				made.Text = strings.Replace(made.Text, "commits", "commit", 1)
			}
		}
		badges = append(badges, made)
	}
	return badges
}

func (d boardPages) showTasks(v *visit) error {
	p, err := d.loadBoard(v, "tasks")
	if err != nil {
		return err
	}
	page := struct {
		boardPage
		Status  string
		Columns []column
		Next    string
		Key     string
	}{boardPage: p, Status: v.URL.Query().Get("status"), Key: strings.ToLower(rand.Text()[:16])}
	if p.Board.Name != "" && p.Board.Problem == "" {
		q := api.TaskQuery{Board: p.Board.Name, Status: page.Status, All: true, After: v.URL.Query().Get("after")}
		if page.Status != "" {
			q.Limit = cardsOnPage
		}
		tasks, err := d.leader.Tasks(v.ctx, q)
		if err != nil {
			return err
		}
		page.Columns = arrangeColumns(p.Board.Status, tasks, page.Status)
		if q.Limit > 0 && len(tasks) == q.Limit {
			q.After = tasks[len(tasks)-1].ID
			page.Next = "/tasks?" + q.Query().Encode()
		}
	}
	return d.showPage(v, "tasks", frame{Title: "Tasks", Nav: "tasks", Live: api.Root + "/events", Poll: pollBoard, Page: page})
}

// pollBoard is how often a page about a board is read again: programs change the files without telling the leader.
const pollBoard = 5 * time.Second

// arrangeColumns puts tasks into a column for each status, the oldest first; of those that have ended the newest first. With only
// it makes the column of that status alone.
func arrangeColumns(statuses []string, tasks []api.TaskView, only string) (columns []column) {
	most := cardsInColumn
	if only != "" {
		statuses, most = []string{only}, cardsOnPage
	}
	for _, status := range statuses {
		c := column{Status: status}
		in := slices.DeleteFunc(slices.Clone(tasks), func(t api.TaskView) bool { return t.Status != status })
		if only == "" && (status == "done" || status == board.Cancelled) {
			slices.Reverse(in)
		}
		c.More = max(0, len(in)-most)
		for _, t := range in[:len(in)-c.More] {
			c.Cards = append(c.Cards, makeCard(t))
		}
		columns = append(columns, c)
	}
	return columns
}

// processRow is a line of the history of processes.
type processRow struct {
	board.ProcessRecord
	Mark     mark
	From, To time.Time
	Artifact string // the path of its report
}

func (d boardPages) showTask(v *visit) error {
	p, err := d.loadBoard(v, "tasks")
	if err != nil {
		return err
	}
	t, err := d.leader.Task(v.ctx, p.Board.Name, v.PathValue("id"))
	if err != nil {
		return err
	}
	page := struct {
		boardPage
		Task      api.TaskDetail
		Card      card
		Processes []processRow
		History   []board.Event
		Earlier   int
		Workers   []api.WorkerView
		Key       string
	}{boardPage: p, Task: t, Card: makeCard(t.TaskView), Key: strings.ToLower(rand.Text()[:16])}
	for _, r := range t.Processes[max(0, len(t.Processes)-maxShown):] {
		page.Processes = append(page.Processes, makeProcessRow(r, t.Artifacts, time.Now()))
	}
	page.Task.Artifacts = t.Artifacts[max(0, len(t.Artifacts)-maxShown):]
	page.Task.Comments = t.Comments[max(0, len(t.Comments)-maxShown):]
	page.Earlier = max(0, len(t.Events)-maxListed/2)
	page.History = t.Events[page.Earlier:]
	if page.Workers, err = d.leader.Workers(v.ctx, p.Board.Name); err != nil {
		page.Workers = nil // a worker that cannot be read is no reason to hide the task
	}
	return d.showPage(v, "task", frame{Title: text.Cut(t.Title, 80), Nav: "tasks", Live: api.Root + "/events", Poll: pollBoard, Page: page})
}

func makeProcessRow(r board.ProcessRecord, artifacts []board.Artifact, now time.Time) processRow {
	row := processRow{ProcessRecord: r, Mark: mark{"⟳", "active", "in progress"}}
	row.From, _ = time.Parse(time.RFC3339, r.StartedAt)
	row.To, _ = time.Parse(time.RFC3339, r.EndedAt)
	switch {
	case r.Result == "failed":
		row.Mark = mark{"✗", "bad", "failed"}
	case r.EndedAt != "":
		row.Mark = mark{"✓", "good", r.Result}
	case worker.Late(r, now):
		row.Mark = mark{"▲", "bad", "beyond its timeout"}
	}
	for _, a := range artifacts {
		if a.ID == r.ArtifactID && a.ID != "" {
			row.Artifact = a.Path + a.URL
		}
	}
	return row
}

func (d boardPages) showWorkers(v *visit) error {
	p, err := d.loadBoard(v, "workers")
	if err != nil {
		return err
	}
	page := struct {
		boardPage
		Workers []api.WorkerView
		Queue   []worker.Request
		Names   map[string]string // of tasks in the queue
		Total   int
	}{boardPage: p, Names: map[string]string{}}
	if p.Board.Name != "" && p.Board.Problem == "" {
		if page.Workers, err = d.leader.Workers(v.ctx, p.Board.Name); err != nil {
			return err
		}
		if page.Queue, err = d.leader.Queue(v.ctx, p.Board.Name); err != nil {
			return err
		}
		page.Total = len(page.Queue)
		page.Queue = page.Queue[max(0, page.Total-maxListed):]
		slices.Reverse(page.Queue)
		tasks, err := d.leader.Tasks(v.ctx, api.TaskQuery{Board: p.Board.Name, All: true})
		if err != nil {
			return err
		}
		for _, t := range tasks {
			page.Names[t.ID] = t.ShortID
		}
	}
	return d.showPage(v, "workers", frame{Title: "Workers", Nav: "tasks", Live: api.Root + "/events", Poll: pollBoard, Page: page})
}
