package leader_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestBoards works on a board over the interface. Each answer is as the description says, a move is refused as the command refuses
// it, a key counts a request once, and each change has its audit entry.
func TestBoards(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	reviewed := git("rev-parse", "HEAD")
	git("commit", "-q", "--allow-empty", "-m", "two")
	if err := board.Init(dir, board.DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	l, _ := lead(t, home.Home(t.TempDir()), func(c *leader.Config) { c.Boards = []string{dir, other} })
	server := httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	d := newDescription(t, []byte(api.Description()))
	name := filepath.Base(dir)
	ask := func(method, path, body string, out any) *fault.Error {
		t.Helper()
		if !strings.Contains(path, "?") {
			path += "?board=" + name
		}
		resp := send(t, server, method, api.Root+path, body, "Idempotency-Key", method+body)
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range api.Routes(nil) {
			at, _, _ := strings.Cut(path, "?")
			if r.Method == method && (r.Path == api.Root+at || r.Path == api.Root+"/tasks/{id}" && strings.HasPrefix(at, "/tasks/")) {
				d.check(r, resp.StatusCode != 200, text)
			}
		}
		if resp.StatusCode != 200 {
			var p exchange.Problem
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			return p.Error
		}
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	var boards []api.BoardView
	if p := ask("GET", "/boards?", "", &boards); p != nil || len(boards) != 2 || boards[0].Name != name || boards[1].Problem == "" {
		t.Fatalf("the boards are %+v, %v", boards, p)
	}
	var task api.TaskView
	for range 2 {
		if p := ask("POST", "/tasks", `{"title":"Retry uploads"}`, &task); p != nil || task.ShortID != "LAT-1" || task.Status != "backlog" {
			t.Fatalf("POST /tasks: %+v, %v", task, p)
		}
	}
	config := board.DefaultConfig("LAT")
	for status, body := range map[string]string{"done": `{"status":"done"}`, "nowhere": `{"status":"nowhere"}`} {
		want := fault.As(config.CheckMove(&task.Task, status))
		if p := ask("POST", "/tasks/LAT-1", body, &task); p == nil || p.Fault.Code != want.Fault.Code || p.Fault.Message != want.Fault.Message || p.Fault.Hint != want.Fault.Hint {
			t.Errorf("a move to %s: %+v, want %+v", status, p, want)
		}
	}
	if p := ask("POST", "/tasks/LAT-1", `{"status":"review","assigned_to":"agent:claude","comment":"ready"}`, &task); p != nil || task.Status != "review" || task.AssignedTo != "agent:claude" || len(task.Comments) != 1 {
		t.Errorf("a change: %+v, %v", task, p)
	}
	b, err := board.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, _, err := b.Update(t.Context(), task.ID, "agent:claude", func(*board.Task) ([]board.Change, error) {
		return []board.Change{{Type: board.ArtifactAttached, Data: board.ArtifactData{ArtifactID: "art_1", Role: "review", Commit: reviewed}},
			{Type: board.ProcessStarted, Data: board.ProcessData{Type: "CodeReviewLite", Commit: reviewed}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	var detail api.TaskDetail
	if p := ask("GET", "/tasks/LAT-1", "", &detail); p != nil || len(detail.Badges) != 1 || detail.Badges[0].Behind == nil || *detail.Badges[0].Behind != 1 || len(detail.Processes) != 1 || len(detail.Moves) == 0 {
		t.Errorf("GET /tasks/LAT-1: %+v, %v", detail, p)
	}
	ask("POST", "/tasks", `{"title":"Write docs"}`, &task)
	var tasks []api.TaskView
	if p := ask("GET", "/tasks?board="+name+"&limit=1&after="+detail.ID, "", &tasks); p != nil || len(tasks) != 1 || tasks[0].ShortID != "LAT-2" {
		t.Errorf("the second page: %+v, %v", tasks, p)
	}
	var workers []api.WorkerView
	p := ask("GET", "/workers", "", &workers)
	if i := slices.IndexFunc(workers, func(w api.WorkerView) bool { return w.Name == "CodeReviewLite" }); i < 0 || !slices.Equal(workers[i].Running, []string{"LAT-1"}) {
		t.Errorf("the workers: %+v, %v", workers, p)
	}
	var request worker.Request
	for range 2 {
		if p := ask("POST", "/queue", `{"worker":"codereviewlite","task":"LAT-2"}`, &request); p != nil || request.Commit != git("rev-parse", "HEAD") || request.TaskID != task.ID {
			t.Errorf("POST /queue: %+v, %v", request, p)
		}
	}
	var queue []worker.Request
	if p := ask("GET", "/queue", "", &queue); p != nil || len(queue) != 1 {
		t.Errorf("the queue: %+v, %v", queue, p)
	}
	for path, code := range map[string]string{"/tasks?board=none": "no_board", "/tasks?": "board_ambiguous", "/tasks?after=x&board=" + name: "task_not_found", "/tasks?status=x&board=" + name: "status_unknown", "/tasks/LAT-9": "task_not_found"} {
		if p := ask("GET", path, "", &tasks); p == nil || p.Fault.Code != code {
			t.Errorf("GET %s: %+v, want %s", path, p, code)
		}
	}
	kinds := 0
	if err := l.AuditEntries(t.Context(), "", 0, func(e audit.Entry) error {
		if e.Kind == audit.Task {
			kinds++
		}
		return nil
	}); err != nil || kinds != 4 {
		t.Errorf("%d audit entries of tasks, want 4: %v", kinds, err)
	}
}
