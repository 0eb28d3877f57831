package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/worker"
)

// queueOp is an operation of the history of TestQueueDispatchersAtOnce: add, claim or look.
type queueOp struct{ verb, id string }

// queueModel is a request as one process alone would see it: absent, then pending, then claimed, each once.
var queueModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := map[string][]porcupine.Operation{}
		for _, o := range history {
			id := o.Input.(queueOp).id
			byID[id] = append(byID[id], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byID {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "absent" },
	Step: func(state, input, output any) (bool, any) {
		now, seen := state.(string), output.(string)
		switch input.(queueOp).verb {
		case "add":
			return now == "absent", worker.Pending
		case "claim": // by a dispatcher that may have been killed before or after
			return now == worker.Pending, worker.Claimed
		}
		return seen == now, now
	},
}

// Eight dispatchers work off one queue at once, each a process, and each is killed with -9 a few times. The history of the
// statuses that others see is linearizable, every request gets one run, and its task one start.
func TestQueueDispatchersAtOnce(t *testing.T) {
	j := newJob(t)
	defer j.remove()
	const dispatchers, kills, requests = 8, 2, 6
	j.sh(t, `mkdir -p src/.lattice/workers && cat >src/.lattice/workers/ask.toml <<X
[worker]
name = "Ask"
[trigger]
manual_only = true
[execution]
flow = "human-approve"
worktree = true
timeout_minutes = 1000
X`)
	root := filepath.Join(j.dir, "src")
	j.env = append(j.env, "LATTICE_ROOT="+root, "LATTICE_ACTOR=human:ada")
	j.lattice(t, 0, "", "task", "init", "--code", "LAT")
	j.lattice(t, 0, "", "runs") // the leader starts before the dispatchers
	b, err := board.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	queue := worker.Queue{Board: b}

	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	since := func() int64 { return time.Since(start).Nanoseconds() }
	record := func(verb, id, seen string, call, end int64) {
		mu.Lock()
		history = append(history, porcupine.Operation{ClientId: len(history), Input: queueOp{verb, id}, Call: call, Output: seen, Return: end})
		mu.Unlock()
	}
	look := func(t *testing.T) map[string]string {
		call := since()
		list, problems, err := queue.List()
		if err != nil || len(problems) > 0 {
			t.Errorf("list the queue: %v %v", problems, err)
		}
		end, seen := since(), map[string]string{}
		for _, q := range list {
			seen[q.ID] = q.Status
			record("look", q.ID, q.Status, call, end)
		}
		return seen
	}
	tasks := map[string]string{}
	for n := range requests {
		task, _, err := b.Create(t.Context(), "human:ada", "", board.CreatedData{Title: fmt.Sprint(n), Status: "backlog"})
		if err != nil {
			t.Fatal(err)
		}
		q := worker.NewRequest("Ask", task.ID, "", "", time.Now())
		call := since()
		if err := queue.Add(q); err != nil {
			t.Fatal(err)
		}
		record("add", q.ID, "", call, since())
		record("claim", q.ID, "", since(), time.Hour.Nanoseconds()) // by one of the dispatchers, at any time from now on
		tasks[q.ID] = task.ID
	}

	var wg sync.WaitGroup
	for n := range dispatchers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 11))
			for range kills {
				j.dispatch(t, time.Duration(50+r.IntN(700))*time.Millisecond)
				look(t)
			}
		})
	}
	wg.Wait()
	// What the killed ones left is done by one that lives until every request has its run.
	cmd := j.startDispatcher(t)
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	var runs []struct {
		ID       string `json:"run_id"`
		WorkItem string `json:"work_item_id"`
	}
	for claimed := 0; claimed < requests || len(runs) < requests; {
		claimed = 0
		for _, status := range look(t) {
			if status == worker.Claimed {
				claimed++
			}
		}
		_, list := j.lattice(t, 0, "", "runs", "--json")
		if err := json.Unmarshal([]byte(list), &runs); err != nil {
			t.Fatal(err)
		}
		if t.Context().Err() != nil || time.Since(start) > 5*time.Minute {
			t.Fatalf("%d of %d requests are claimed, with %d runs", claimed, requests, len(runs))
		}
	}
	if !porcupine.CheckOperations(queueModel, history) {
		t.Errorf("the history is not linearizable: %+v", history)
	}
	if len(runs) != requests {
		t.Errorf("%d runs for %d requests", len(runs), requests)
	}
	for id, task := range tasks {
		events, err := b.History(task)
		if err != nil {
			t.Fatal(err)
		}
		if records := board.Processes(events); len(records) != 1 || records[0].RequestID != id {
			t.Errorf("the request %s has the processes %+v", id, records)
		}
	}
	_ = cmd.Process.Kill()
	j.judgeAll(t)
	j.lattice(t, 0, "", "serve", "--stop")
	j.lattice(t, 0, "", "store", "check")
}

var (
	drain     = flag.Int("queue", 24, "requests that TestQueueDrains works off")
	drainJobs = flag.String("queue-jobs", "8", "workers at once in TestQueueDrains")
)

// A dispatcher works off a queue without loss: every request is completed once, by a run of its own. How many it works off in a second
// is logged.
func TestQueueDrains(t *testing.T) {
	j := newJob(t)
	defer j.remove()
	root := filepath.Join(j.dir, "src")
	j.env = append(j.env, "LATTICE_ROOT="+root, "LATTICE_ACTOR=human:ada")
	j.lattice(t, 0, "", "task", "init", "--code", "LAT")
	b, err := board.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	queue := worker.Queue{Board: b}
	for n := range *drain {
		id := fmt.Sprintf("task_%026d", n)
		created := fmt.Sprintf(`{"id":"ev_%d","ts":"2026-01-01T00:00:00Z","type":"task_created","task_id":"%s","data":{"title":"x","status":"backlog"}}`, n, id)
		if err := b.ReplaceFile(".lattice/events/"+id+".jsonl", []byte(created+"\n")); err != nil {
			t.Fatal(err)
		}
		if err := queue.Add(worker.NewRequest("StaleDetector", id, "", "", time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	j.lattice(t, 0, "", "worker", "watch", "--once", "--jobs", *drainJobs)
	t.Logf("%d requests in %s", *drain, time.Since(start).Round(time.Millisecond))
	list, problems, err := queue.List()
	if err != nil || len(problems) > 0 || len(list) != *drain {
		t.Fatalf("%d requests are left of %d: %v %v", len(list), *drain, problems, err)
	}
	runs := map[string]bool{}
	for _, q := range list {
		events, err := b.History(q.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		records := board.Processes(events)
		if runs[q.RunID] || q.Status != worker.Completed || len(records) != 1 || records[0].Result != "success" || records[0].RunID != q.RunID {
			t.Errorf("the request ended as %+v, with the processes %+v", q, records)
		}
		runs[q.RunID] = true
	}
	j.judgeAll(t)
	j.lattice(t, 0, "", "serve", "--stop")
}

// startDispatcher starts lattice worker watch.
func (j *job) startDispatcher(t *testing.T) *exec.Cmd {
	cmd := exec.Command(j.bin, "worker", "watch", "--jobs", "100", "--every", "1s")
	cmd.Dir, cmd.Env, cmd.Stderr = j.dir, j.env, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Error(err)
	}
	return cmd
}

// dispatch lets a dispatcher live for a time.
func (j *job) dispatch(t *testing.T, life time.Duration) {
	cmd := j.startDispatcher(t)
	timer := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
		t.Errorf("lattice worker watch: %v", err)
	}
}
