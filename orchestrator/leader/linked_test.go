package leader_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

const asks = `{"execir_version":"1.0","id":"asks","tools":["agent.run"],"entry_node":"a","nodes":[{"id":"a","op":"TOOL_CALL","tool":"agent.run",
	"args":{"pass_through_events":true,"command":"[ -f .lattice/answers.json ] || echo 'LATTICE_EVENT {\"type\":\"question\",\"prompt\":\"Which?\"}'"}}],"edges":[]}`

// dies lets nothing follow when an answer is on disk.
type dies struct{ driver.Log }

func (d dies) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	seq, err := d.Log.Append(ctx, run, after, entries)
	for _, e := range entries {
		if e.Type == "Answered" {
			err = errors.New("died")
		}
	}
	return seq, err
}

// TestLinkedRunAfterCrash: an answer that is on disk is not lost with whoever gave it. The run that it begins is begun
// once, by whoever comes by.
func TestLinkedRunAfterCrash(t *testing.T) {
	home := home.Home(t.TempDir())
	answer := api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"answer": "red"}, By: "ada"}
	first, end := lead(t, home, func(c *leader.Config) {
		c.WrapLog = func(log driver.Log) driver.Log { return dies{log} }
	})
	one := start(t, first, asks, "")
	if v := watch(t, first, one, ""); v.Status != lattice.BlockedWaitingForUser || len(v.Waits) != 1 {
		t.Fatalf("%s is %s with waits %v, error %+v; want it to ask", one, v.Status, v.Waits, v.Error)
	}
	if _, err := first.Decide(t.Context(), one, answer); err == nil {
		t.Fatal("something followed the answer")
	}
	v, err := first.Run(t.Context(), one)
	if err != nil || v.Status != lattice.Canceled || v.ContinuedIn == "" || v.Note == "" {
		t.Fatalf("Run = %+v, %v; want it answered, with a note that nothing has begun", v, err)
	}
	if all, err := first.Runs(t.Context(), api.RunList{}); err != nil || len(all) != 1 {
		t.Fatalf("%d runs, %v; want the one that asked", len(all), err)
	}
	end()

	second, _ := lead(t, home)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if v, err := second.Drive(t.Context(), one, api.DriveRequest{}); err != nil || v.ResumedFrom != one {
				t.Errorf("Drive = %+v, %v; want the run that goes on", v, err)
			}
		})
		group.Go(func() {
			if r, err := second.Decide(t.Context(), one, answer); err != nil || !r.Duplicate || r.Run.ResumedFrom != one {
				t.Errorf("the same answer = %+v, %v; want the run that goes on", r, err)
			}
		})
	}
	group.Wait()
	if last := watch(t, second, v.ContinuedIn, ""); last.Status != lattice.Succeeded || last.WorkItem != v.WorkItem {
		t.Fatalf("%s is %s: %+v; want it succeeded, for the same work item", last.RunID, last.Status, last.Error)
	}
	if all, err := second.Runs(t.Context(), api.RunList{}); err != nil || len(all) != 2 {
		t.Fatalf("%d runs, %v; want two", len(all), err)
	}
	other := answer
	other.Inputs = map[string]string{"answer": "blue"}
	if _, err := second.Decide(t.Context(), one, other); refusal(err) != "already_decided" {
		t.Fatalf("another answer: %v, want already_decided", err)
	}
	if _, err := os.Stat(home.Run(v.ContinuedIn)); err != nil {
		t.Error(err)
	}
}
