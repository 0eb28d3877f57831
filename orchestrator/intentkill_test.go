package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spritekit/lattice/orchestrator/intent"
)

// intentOp is an operation of the history of TestIntentsAtOnce.
type intentOp struct{ verb, key string }

// intentSeen is what an operation reported: "absent", "gated", "started", or "" if its process was killed.
type intentSeen string

// intentModel is an intent as one process alone would see it: absent, then gated, then started.
var intentModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(intentOp).key
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return intentSeen("absent") },
	Step: func(state, input, output any) (bool, any) {
		next := state.(intentSeen)
		switch verb := input.(intentOp).verb; {
		case verb == "create" && next == "absent":
			next = "gated"
		case verb == "approve" && next == "gated":
			next = "started"
		}
		seen := output.(intentSeen)
		if seen == "proposed" || seen == "classified" { // creation takes more than one fact, and one may see it half done
			return next != "started", next
		}
		return seen == "" || seen == next, next
	},
}

// Eight people create, approve and look at three intents at once, each command a process, and a third of the processes are
// killed with -9. The history is linearizable, each intent has one run, and the audit log is whole.
func TestIntentsAtOnce(t *testing.T) {
	j := newJob(t)
	defer j.remove()
	const people, each, keys = 8, 6, 3
	var mu sync.Mutex
	var history []porcupine.Operation
	known, start := 0, time.Now()
	var wg sync.WaitGroup
	for person := range people {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(person), 7))
			for range each {
				op := intentOp{[]string{"create", "approve", "show"}[r.IntN(3)], fmt.Sprintf("key%d", r.IntN(keys))}
				var kill time.Duration
				if r.IntN(3) == 0 {
					kill = time.Duration(r.IntN(400)) * time.Millisecond
				}
				call := time.Since(start).Nanoseconds()
				seen := j.intent(t, op, kill)
				end := time.Since(start).Nanoseconds()
				if seen == "" {
					end = time.Hour.Nanoseconds() // it may have taken effect at any time, or never
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Call: call, Output: seen, Return: end})
				if seen != "" {
					known++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if known == 0 {
		t.Error("no operation has an outcome; the history says nothing")
	}
	t.Logf("%d of %d operations have an outcome", known, people*each)
	if !porcupine.CheckOperations(intentModel, history) {
		t.Errorf("the history is not linearizable: %+v", history)
	}
	for n := range keys {
		op := intentOp{"create", fmt.Sprintf("key%d", n)}
		for _, op.verb = range []string{"create", "approve"} {
			if j.intent(t, op, 0) == "" {
				t.Fatalf("%v fails", op)
			}
		}
		_, why := j.lattice(t, 0, "", "intent", "show", intent.ID(op.key), "--why", "--json")
		if got := strings.Count(why, `"fact":"started"`); got != 1 {
			t.Errorf("%s was started %d times:\n%s", op.key, got, why)
		}
	}
	_, list := j.lattice(t, 0, "", "runs", "--json")
	var runs []struct {
		Intent string `json:"intent_id"`
	}
	if err := json.Unmarshal([]byte(list), &runs); err != nil || len(runs) != keys {
		t.Errorf("%d runs for %d intents, %v", len(runs), keys, err)
	}
	for rest := true; rest && t.Context().Err() == nil; {
		rest = false
		for _, r := range j.runs(t) {
			if r.Status == "running" || r.Status == "pending" {
				rest = true
				resume := exec.Command(j.bin, "resume", r.ID)
				resume.Dir, resume.Env = j.dir, j.env
				_ = resume.Run() // it may have ended
			}
		}
	}
	j.lattice(t, 0, "", "audit", "verify")
	j.judgeAll(t)
	j.lattice(t, 0, "", "serve", "--stop")
	j.lattice(t, 0, "", "store", "check")
}

// intent performs an operation in a process of its own, which is killed after a time unless that is 0.
func (j *job) intent(t *testing.T, op intentOp, kill time.Duration) intentSeen {
	args := []string{"intent", op.verb, intent.ID(op.key), "--json"}
	if op.verb == "create" {
		args = []string{"intent", "create", "sprite_task_exec", "--input", "command=true", "--key", op.key, "--json"}
	}
	cmd := exec.Command(j.bin, args...)
	cmd.Dir, cmd.Env = j.dir, j.env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return ""
	}
	if kill > 0 {
		timer := time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	_ = cmd.Wait() // the exit code says it all
	switch cmd.ProcessState.ExitCode() {
	case 0:
	case 3:
		return "absent"
	default:
		if kill == 0 {
			t.Logf("%v: %s", op, stderr.String())
		}
		return ""
	}
	var s intent.State
	if err := json.Unmarshal([]byte(stdout.String()), &s); err != nil {
		t.Errorf("%v: %v", op, err)
		return ""
	}
	if s.Run != "" {
		return "started"
	}
	return intentSeen(s.Status)
}
