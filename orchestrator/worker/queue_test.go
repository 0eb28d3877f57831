package worker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
)

// The request of the seed workers-design, as it stands there.
const seedRequest = `{
  "id": "wq_01",
  "created_at": "2026-02-16T14:30:00Z",
  "task_id": "task_01",
  "worker": "CodeReviewLite",
  "trigger_event": "ev_01",
  "commit_sha": "abc1234",
  "status": "pending"
}`

func TestRequestOfTheSeed(t *testing.T) {
	got, err := parseRequest("wq_01.json", []byte(seedRequest))
	want := Request{ID: "wq_01", CreatedAt: "2026-02-16T14:30:00Z", TaskID: "task_01", Worker: "CodeReviewLite", TriggerEvent: "ev_01", Commit: "abc1234", Status: Pending}
	if err != nil || got != want {
		t.Errorf("parseRequest = %+v, %v", got, err)
	}
	if run := got.Run(); run != want.Run() || len(run) != len("run_")+16 {
		t.Errorf("Run = %s", run)
	}
	for _, bad := range []string{"", "[]", "{}", `{"id":"wq_02","task_id":"t","worker":"w"}`, `{"id":"../wq_01","task_id":"t","worker":"w"}`, `{"id":"wq_01","worker":"w"}`,
		strings.Replace(seedRequest, "pending", "sleeping", 1)} {
		if r, err := parseRequest("wq_01.json", []byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
}

func newQueue(t *testing.T) Queue {
	dir := t.TempDir()
	if err := board.Init(dir, board.DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := board.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return Queue{b}
}

// Four that work off one queue at once lose no request and end none twice.
func TestQueueDrains(t *testing.T) {
	q := newQueue(t)
	const requests = 15
	for n := range requests {
		if err := q.Add(Request{ID: fmt.Sprintf("wq_%d", n), TaskID: "t", Worker: "w", Status: Pending, CreatedAt: fmt.Sprintf("2026-02-16T14:30:%02dZ", n)}); err != nil {
			t.Fatal(err)
		}
	}
	list, problems, err := q.List()
	if err != nil || len(problems) > 0 || len(list) != requests || list[0].ID != "wq_0" {
		t.Fatalf("List = %d requests, %v, %v", len(list), problems, err)
	}
	var wg sync.WaitGroup
	var errs atomic.Int32
	now := time.Now()
	for n := range 4 {
		wg.Go(func() {
			for _, r := range list {
				reason := ""
				status := Completed
				if n%2 == 0 {
					status, reason = Failed, "lost"
				}
				if n > 1 && q.Claim(t.Context(), r.ID, r.Run()) != nil || q.End(t.Context(), Request{ID: r.ID, RunID: r.Run(), Status: status, Error: reason}, now) != nil {
					errs.Add(1)
				}
			}
		})
	}
	wg.Wait()
	list, problems, err = q.List()
	if err != nil || len(problems) > 0 || len(list) != requests || errs.Load() > 0 {
		t.Fatalf("List = %d requests, %v, %v, %d errors", len(list), problems, err, errs.Load())
	}
	for _, r := range list {
		if !r.Ended() || r.RunID != r.Run() || (r.Error == "") != (r.Status == Completed) {
			t.Errorf("the request ended as %+v", r)
		}
	}
	if err := q.End(t.Context(), Request{ID: "wq_gone", Status: Failed}, now); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{keepEnded - time.Minute, requests}, {keepEnded + time.Minute, 0}} {
		if err := q.RemoveEnded(list, now.Add(c.after)); err != nil {
			t.Fatal(err)
		}
		if kept, _, _ := q.List(); len(kept) != c.left {
			t.Errorf("%d requests are left after %s, want %d", len(kept), c.after, c.left)
		}
	}
}
