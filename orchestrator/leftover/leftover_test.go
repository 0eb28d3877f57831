package leftover

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/checkout"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worker"
)

func TestOfBoard(t *testing.T) {
	dir := t.TempDir()
	if err := board.Init(dir, board.DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := board.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	now := time.Now()
	queue := worker.Queue{Board: b}
	task, _, err := b.Create(t.Context(), "human:ada", "", board.CreatedData{Title: "x", Status: "backlog"})
	if err != nil {
		t.Fatal(err)
	}
	fresh := worker.NewRequest("TestRunner", task.ID, "", "", now)
	if err := queue.Add(fresh); err != nil {
		t.Fatal(err)
	}
	var canceled []string
	cancel := func(_ context.Context, run string) error { canceled = append(canceled, run); return nil }
	if all, err := OfBoard(b, "", now, cancel); err != nil || len(all) > 0 {
		t.Fatalf("a sound board has the leftovers %+v, %v", all, err)
	}

	start := func(timeout int, request, run string) {
		if _, _, err := b.Update(t.Context(), task.ID, "agent:x", func(*board.Task) ([]board.Change, error) {
			return []board.Change{{Type: board.ProcessStarted, Data: board.ProcessData{Type: "TestRunner", TimeoutMinutes: timeout, RequestID: request, RunID: run}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	start(1, "", "run_late")
	start(0, "", "run_other")
	start(1000, "wq_works", "")
	add := func(id, name, task, status, created string) {
		text := `{"id":"` + id + `","worker":"` + name + `","task_id":"` + task + `","status":"` + status + `","created_at":"` + created + `"}`
		if err := b.ReplaceFile(worker.QueueDir+"/"+id+".json", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	long := now.Add(-2 * waitLimit).Format(time.RFC3339)
	add("wq_works", "TestRunner", "LAT-1", "claimed", long)
	add("wq_over", "TestRunner", "LAT-1", "completed", long)
	add("wq_task", "TestRunner", "LAT-9", "pending", long)
	add("wq_worker", "Nobody", "LAT-1", "pending", long)
	add("wq_claimed", "TestRunner", "LAT-1", "claimed", long)
	add("wq_long", "TestRunner", task.ID, "pending", long)
	if err := b.ReplaceFile(worker.QueueDir+"/wq_torn.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"TestRunner on LAT-1":         "beyond its timeout of 1 minutes",
		".lattice/queue/wq_torn.json": "is not a request",
		"wq_task":                     "names the task LAT-9, which the board does not have",
		"wq_worker":                   "there is no worker Nobody",
		"wq_claimed":                  "is claimed, and no process works on it",
		"wq_long":                     "waits since " + long,
	}
	all, err := OfBoard(b, "", now.Add(2*time.Minute), cancel)
	if err != nil || len(all) != len(want) {
		t.Fatalf("OfBoard = %+v, %v", all, err)
	}
	for _, l := range all {
		if w, ok := want[l.Name]; !ok || !strings.Contains(l.Detail, w) || l.Remedy == "" {
			t.Errorf("leftover %+v, want %q", l, w)
		}
		if fixed := l.Fix(t.Context()); fixed.Error != "" || fixed.Fixed == (l.Name == "wq_long") {
			t.Errorf("Fix = %+v", fixed)
		}
	}
	if all, err = OfBoard(b, "", now.Add(2*time.Minute), cancel); err != nil || len(all) != 1 || all[0].Name != "wq_long" || !slices.Equal(canceled, []string{"run_late"}) {
		t.Errorf("after the repair OfBoard = %+v, %v; canceled %q", all, err, canceled)
	}
	if _, err := os.Stat(filepath.Join(dir, worker.QueueDir, "wq_torn.json.bad")); err != nil {
		t.Error(err)
	}
	if l := (Leftover{repair: func(context.Context) error { return errors.New("no") }}).Fix(t.Context()); l.Fixed || l.Error != "no" {
		t.Errorf("a repair that fails = %+v", l)
	}
}

func TestOfRepository(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	tree := filepath.Join(t.TempDir(), "tree")
	git("worktree", "add", "-q", "--detach", tree)
	if all, err := OfRepository(t.Context(), dir); err != nil || len(all) > 0 {
		t.Fatalf("a worktree in use is a leftover: %+v, %v", all, err)
	}
	if err := os.RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	all, err := OfRepository(t.Context(), dir)
	if err != nil || len(all) != 1 || all[0].Kind != "worktree" || all[0].Name != "tree" || all[0].Detail == "" {
		t.Fatalf("OfRepository = %+v, %v", all, err)
	}
	if l := all[0].Fix(t.Context()); !l.Fixed {
		t.Errorf("Fix = %+v", l)
	}
	if all, err = OfRepository(t.Context(), dir); err != nil || len(all) > 0 {
		t.Errorf("after the repair OfRepository = %+v, %v", all, err)
	}
	if _, err := OfRepository(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder without a repository has worktrees")
	}
}

func TestJudges(t *testing.T) {
	for _, c := range []struct {
		run  api.RunView
		want string // kinds and names
	}{
		{api.RunView{RunID: "run_x", Status: lattice.Running}, "run run_x"},
		{api.RunView{RunID: "run_x", Status: lattice.Running, Sprite: "s"}, "run run_x, outbox s"},
		{api.RunView{RunID: "run_x", Status: lattice.Pending, Sprite: "s"}, "run run_x"},
		{api.RunView{RunID: "run_x", Status: lattice.Running, Sprite: "s", Driving: true}, ""},
		{api.RunView{RunID: "run_x", Status: lattice.Waiting, Sprite: "s"}, ""},
		{api.RunView{RunID: "run_x", Status: lattice.Failed, Sprite: "s"}, ""},
	} {
		var got []string
		for _, l := range judgeRun(c.run) {
			got = append(got, l.Kind+" "+l.Name)
			if !strings.Contains(l.Remedy, "lattice resume run_x") || l.Detail == "" {
				t.Errorf("leftover %+v", l)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("judgeRun(%+v) = %q, want %q", c.run, got, c.want)
		}
	}
}

// A worker in a worktree whose dispatcher died is ended, and its worktree removed; so is a worktree that no worker has.
func TestOfWorkers(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	runGit := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	runGit("init", "-q")
	runGit("commit", "-q", "--allow-empty", "-m", "one")
	if err := board.Init(dir, board.DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := board.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	task, _, err := b.Create(t.Context(), "human:ada", "", board.CreatedData{Title: "a"})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := b.Lease(checkout.LeaseName("wq_1"))
	if err != nil {
		t.Fatal(err)
	}
	folder := checkout.FolderOf(home, checkout.Prefix+"LAT-1")
	started := board.ProcessData{Type: "Local", Commit: "abc", Worktree: folder, TimeoutMinutes: 10, RequestID: "wq_1"}
	if _, _, err := b.Update(t.Context(), task.ID, "worker:Local", func(*board.Task) ([]board.Change, error) {
		return []board.Change{{Type: board.ProcessStarted, Data: started}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	find := func(want ...string) []Leftover {
		t.Helper()
		all, err := OfBoard(b, home, time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		orphans, err := OfWorkers(t.Context(), b, home)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, l := range append(all, orphans...) {
			found = append(found, l.Kind+" "+l.Name)
		}
		if !slices.Equal(found, want) {
			t.Fatalf("the leftovers are %q, want %q", found, want)
		}
		return append(all, orphans...)
	}
	runGit("worktree", "add", "-q", "--detach", folder)
	find() // its dispatcher lives
	if err := lease.Leave(); err != nil {
		t.Fatal(err)
	}
	if l := find("process Local on LAT-1")[0].Fix(t.Context()); !l.Fixed {
		t.Errorf("the repair failed: %+v", l)
	}
	find()
	if lease, err = b.Lease(checkout.LeaseName("wq_2")); err != nil { // of a dispatcher that dies before it records the start
		t.Fatal(err)
	}
	find()
	if err := lease.Leave(); err != nil {
		t.Fatal(err)
	}
	if l := find("lease worker-wq_2")[0].Fix(t.Context()); !l.Fixed {
		t.Errorf("the repair failed: %+v", l)
	}
	find()
	if after, err := b.Task(task.ID); err != nil || len(after.Active) > 0 {
		t.Errorf("the process is active: %+v, %v", after, err)
	}
	runGit("worktree", "add", "-q", "--detach", folder)
	runGit("worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "of-a-person"))
	if l := find("worktree " + folder)[0].Fix(t.Context()); !l.Fixed {
		t.Errorf("the repair failed: %+v", l)
	}
	find()
}
