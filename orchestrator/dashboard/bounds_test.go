package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worker"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

// crowd is a leader with size things of each kind. It counts the runs and entries that it is asked for.
type crowd struct {
	Leader
	size, reads int
}

func (c *crowd) Runs(_ context.Context, which api.RunList) (runs []api.RunView, err error) {
	from := 0
	if which.Before != "" {
		if _, err := fmt.Sscanf(which.Before, "run_%d", &from); err != nil {
			return nil, err
		}
		from++
	}
	for i := from; i < c.size && (which.Limit == 0 || len(runs) < which.Limit); i++ {
		c.reads++
		r := api.RunView{RunID: fmt.Sprintf("run_%06d", i), Flow: "fix", Status: lattice.Waiting, Models: &api.ModelUse{}}
		r.Waits = []lattice.Wait{{ID: "w", Node: "n", Prompt: "# Which?\n\n- one\n- two", Expected: map[string]string{"a": "string", "b": "integer"}, Action: &lattice.Action{Name: "PUSH_BRANCH", Binding: []byte(`{}`)}}}
		runs = append(runs, r)
	}
	return runs, nil
}

func (c *crowd) Run(context.Context, string) (api.RunView, error) {
	runs, err := (&crowd{size: 1}).Runs(context.Background(), api.RunList{})
	return runs[0], err
}

func (c *crowd) Proposed(context.Context, string, string) (difference.Patch, error) {
	return difference.Patch{Text: strings.Repeat("+line\n", c.size)}, nil
}

func fill[T any](n int, item func(i int) T) (list []T) {
	for i := range n {
		list = append(list, item(i))
	}
	return list
}

func (c *crowd) Actions(context.Context, string) ([]api.NotedAction, error) {
	return fill(c.size, func(int) api.NotedAction { return api.NotedAction{Status: api.ActionOpen} }), nil
}

func (c *crowd) Intents(_ context.Context, _ string, limit int) ([]intent.State, error) {
	return fill(min(limit, c.size), func(int) intent.State { return intent.State{Status: intent.Gated} }), nil
}

func (c *crowd) Proposals(context.Context, api.ProposalList) ([]proposal.State, error) {
	return make([]proposal.State, c.size), nil
}

func (c *crowd) Products(_ context.Context, q api.ProductQuery) ([]artifact.Product, error) {
	return make([]artifact.Product, min(q.Limit, c.size)), nil
}

func (c *crowd) Budgets(context.Context, string, bool) ([]api.BudgetView, error) {
	return make([]api.BudgetView, c.size), nil
}

func (c *crowd) Cost(_ context.Context, by string) ([]api.CostLine, error) {
	return fill(c.size, func(i int) api.CostLine { return api.CostLine{By: by, Name: fmt.Sprintf("%s %d", by, i)} }), nil
}

func (c *crowd) Sprites(context.Context) ([]sprites.Sprite, error) {
	return make([]sprites.Sprite, c.size), nil
}

func (c *crowd) AuditEntries(_ context.Context, _ string, after uint64, yield func(audit.Entry) error) error {
	for i := after + 1; i <= uint64(c.size); i++ {
		if c.reads++; yield(audit.Entry{Seq: i, Kind: audit.Budget}) != nil {
			return errEnough
		}
	}
	return nil
}

func (c *crowd) ListBoards(context.Context) ([]api.BoardView, error) {
	return []api.BoardView{{Name: "b", Status: board.DefaultConfig("X").Workflow.Statuses}}, nil
}

func (c *crowd) Tasks(_ context.Context, q api.TaskQuery) ([]api.TaskView, error) {
	n := c.size
	if q.Limit > 0 {
		n = min(n, q.Limit)
	}
	statuses := board.DefaultConfig("X").Workflow.Statuses
	return fill(n, func(i int) api.TaskView {
		t := board.Task{ID: fmt.Sprint("task_", i), ShortID: fmt.Sprint("X-", i), Title: "t", Status: statuses[i%len(statuses)], Priority: "low", AssignedTo: "human:a"}
		t.Active = []board.Process{{Type: "CodeReviewLite", StartedAt: "2026-01-02T03:04:05Z", Commit: "abc1234def"}}
		if q.Status != "" {
			t.Status = q.Status
		}
		return api.TaskView{Board: "b", Task: t, Badges: []api.BadgeView{{Badge: board.Badge{Role: "review"}}}}
	}), nil
}

func (c *crowd) Task(context.Context, string, string) (api.TaskDetail, error) {
	tasks, err := c.Tasks(context.Background(), api.TaskQuery{Limit: 1})
	d := api.TaskDetail{TaskView: tasks[0], Processes: make([]board.ProcessRecord, c.size), Events: make([]board.Event, c.size), Moves: []string{"review"}}
	d.Comments, d.Artifacts = make([]board.Comment, c.size), make([]board.Artifact, c.size)
	return d, err
}

func (c *crowd) Workers(context.Context, string) ([]api.WorkerView, error) {
	return make([]api.WorkerView, 10), nil
}

func (c *crowd) Queue(context.Context, string) ([]worker.Request, error) {
	return make([]worker.Request, c.size), nil
}

func (c *crowd) ListLoops(_ context.Context, which api.RunList) ([]loop.View, string, error) {
	return make([]loop.View, min(which.Limit, c.size)), "run_1", nil
}

func (c *crowd) Loop(context.Context, string) (loop.View, error) {
	v := loop.View{RunID: "run_1", Name: "a", Status: loop.Running}
	v.Iterations, v.Tasks = make([]loops.Entry, c.size), make([]loops.Task, min(c.size, 200))
	return v, nil
}

func (c *crowd) Moments(context.Context, string) ([]api.Moment, error) {
	return fill(c.size, func(i int) api.Moment { return api.Moment{Seq: lattice.Seq(i), Available: true} }), nil
}

func (c *crowd) Turns(context.Context, string) ([]api.Turn, error) {
	return fill(c.size, func(i int) api.Turn { return api.Turn{Turn: i, Moment: api.Moment{Seq: lattice.Seq(i)}} }), nil
}

func (c *crowd) ValuesAt(context.Context, string, string) (api.RunValues, error) {
	v := api.RunValues{Vars: map[string]json.RawMessage{}}
	for i := range c.size {
		v.Vars[fmt.Sprint("v", i)] = []byte(`"<b>"`)
	}
	return v, nil
}

func (c *crowd) Compare(context.Context, string, string, string) (api.Comparison, error) {
	return api.Comparison{Vars: make([]difference.Variable, c.size), Files: make([]sprites.Change, c.size)}, nil
}

func (c *crowd) ComparedFiles(context.Context, string, string, string) (difference.Patch, error) {
	return difference.Patch{Text: strings.Repeat("+line\n", c.size)}, nil
}

func (c *crowd) FolderAt(context.Context, string, string, string) (api.Folder, error) {
	return api.Folder{Entries: make([]sprites.FileInfo, min(c.size, api.MaxEntries)), Total: c.size}, nil
}

func (c *crowd) FileAt(context.Context, string, string, string) ([]byte, error) {
	return []byte(strings.Repeat("<b>\n", c.size)), nil
}

func (c *crowd) Program(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage(`{"execir_version":"1.0","id":"x","entry_node":"a","nodes":[{"id":"a","op":"PACK","inputs":{}}]}`), nil
}

func (c *crowd) Deliveries(_ context.Context, _ string, limit int) ([]api.DeliveryView, error) {
	return make([]api.DeliveryView, min(limit, c.size)), nil
}

func (c *crowd) Entries(_ context.Context, _ string, after lattice.Seq, yield func(lattice.Entry) error) error {
	for i := int(after); i < c.size; i++ {
		if c.reads++; yield(lattice.Entry{Seq: lattice.Seq(i + 1), Kind: lattice.EntryFact}) != nil {
			return errEnough
		}
	}
	return nil
}

func (c *crowd) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	return c.Entries(ctx, id, after, yield)
}

func (c *crowd) Candidates(context.Context, string) ([]api.Candidate, error) {
	return fill(16, func(i int) api.Candidate { return api.Candidate{Try: i, Patch: strings.Repeat("+line\n", c.size)} }), nil
}

func (c *crowd) ListFlows(context.Context) ([]api.FlowView, error) {
	return make([]api.FlowView, c.size), nil
}

func (c *crowd) Flow(_ context.Context, name string) (api.FlowDocument, error) {
	return api.FlowDocument{FlowView: api.FlowView{Name: name}, Text: strings.Repeat("</textarea><b>\n", c.size)}, nil
}

func (c *crowd) CheckFlow(context.Context, api.FlowCheck) (api.FlowReport, error) {
	return api.FlowReport{Findings: make([]finding.Finding, c.size), Inputs: make([]api.FlowInput, 20)}, nil
}

// get returns a page as an admin sees it.
func get(t *testing.T, l Leader, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	New(l).Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), Visitor{Who: audit.Who{Name: "a"}, Role: route.Admin, CSRF: "c"})
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestPagesAreBounded: with 10,000 things of each kind a page has at most 2,000 elements, and reads no more runs and entries of the
// audit log than with 1,000.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/runs", "/runs?flow=none", "/runs?before=run_000100", "/waiting", "/tasks", "/tasks?status=review", "/tasks/X-1", "/workers", "/loops", "/loops/run_1", "/intents", "/proposals",
		"/flows", "/flows/x", "/artifacts", "/cost", "/sprites", "/audit", "/deliveries", "/runs/run_1/events", "/runs/run_1/log", "/runs/run_1/candidates", "/runs/run_1/changes", "/runs/run_1/compare?with=x", "/runs/run_1/compare", "/runs/run_1/files", "/runs/run_1/file?path=x", "/runs/run_1"} {
		few, many := &crowd{size: 1000}, &crowd{size: 10_000}
		get(t, few, path)
		text := get(t, many, path)
		if n := strings.Count(text, "<") - strings.Count(text, "</"); n > 2000 || n < 20 {
			t.Errorf("%s has %d elements", path, n)
		}
		if many.reads > few.reads+60 && path != "/runs/run_1" { // bisection takes a few more; the timeline of a run reads the run's entries
			t.Errorf("%s reads %d runs and entries of 10,000, and %d of 1,000", path, many.reads, few.reads)
		}
	}
}

// TestCards: a card says what runs, since when and on which commit, and what the task has and needs.
func TestCards(t *testing.T) {
	t.Parallel()
	behind, none := 3, 0
	has := &board.Artifact{Commit: "abc1234def5678"}
	for _, tt := range []struct {
		badge api.BadgeView
		want  string
	}{
		{api.BadgeView{Badge: board.Badge{Role: "review"}}, "attention Needs: review"},
		{api.BadgeView{Badge: board.Badge{Role: "review", Has: has}}, "good Has: review @ abc1234"},
		{api.BadgeView{Badge: board.Badge{Role: "review", Has: has}, Behind: &none}, "good Has: review @ abc1234"},
		{api.BadgeView{Badge: board.Badge{Role: "review", Has: has}, Behind: &behind}, "attention Has: review @ abc1234 (+3 commits since)"},
	} {
		if got := makeBadges([]api.BadgeView{tt.badge})[0]; got.Class+" "+got.Text != tt.want {
			t.Errorf("the badge of %+v is %+v, want %s", tt.badge, got, tt.want)
		}
	}
	now := time.Date(2026, 2, 16, 14, 40, 0, 0, time.UTC)
	for want, r := range map[string]board.ProcessRecord{
		"in progress":        {Process: board.Process{StartedAt: "2026-02-16T14:35:00Z"}, TimeoutMinutes: 10},
		"beyond its timeout": {Process: board.Process{StartedAt: "2026-02-16T14:25:00Z"}, TimeoutMinutes: 10},
		"success":            {EndedAt: "2026-02-16T14:36:00Z", Result: "success"},
		"failed":             {EndedAt: "2026-02-16T14:36:00Z", Result: "failed"},
	} {
		if got := makeProcessRow(r, nil, now); got.Mark.Name != want {
			t.Errorf("the process %+v is %s, want %s", r, got.Mark.Name, want)
		}
	}
	text := get(t, &crowd{size: 1}, "/tasks")
	for _, want := range []string{"CodeReviewLite running… started", "reviewing <code>abc1234</code>", "Needs: review"} {
		if !strings.Contains(text, want) {
			t.Errorf("the card does not say %q", want)
		}
	}
}

func (c *crowd) CompareRuns(context.Context, string, string) (api.RunComparison, error) {
	return api.RunComparison{Nodes: make([]difference.Node, c.size), Vars: make([]difference.Variable, c.size), Files: make([]sprites.Change, c.size), Patch: difference.Patch{Text: strings.Repeat("+line\n", c.size)}}, nil
}
