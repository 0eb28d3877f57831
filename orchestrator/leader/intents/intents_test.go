package intents

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
)

// An intent that waits for no approval cannot be approved.
func TestApproveRefuses(t *testing.T) {
	if _, err := new(Pipeline).approvePlan(t.Context(), intent.State{ID: "i", Status: intent.Rejected}, api.IntentDecision{}); fault.As(err) == nil || fault.As(err).Code != "intent_state" {
		t.Errorf("approve = %v, want intent_state", err)
	}
}

// starter is an Executor that collects the requests of runs that it starts.
type starter map[string]api.RunRequest

func (f starter) Start(_ context.Context, r api.RunRequest) (api.RunView, error) {
	if !r.DryRun {
		f["run_"+r.Key] = r
	}
	return api.RunView{}, nil
}

func (f starter) Run(_ context.Context, id string) (api.RunView, error) {
	if _, ok := f[id]; !ok {
		return api.RunView{}, fault.NotFound("run_not_found", "there is no run %s", id)
	}
	return api.RunView{RunID: id, Status: lattice.Running}, nil
}

func (f starter) Cancel(ctx context.Context, id, _ string) (api.RunView, error) {
	return f.Run(ctx, id)
}

// asPeer returns the context of a request of this user over a socket.
func asPeer(t *testing.T) context.Context {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(ends[0]), "socket")
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close(), syscall.Close(ends[1])); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return caller.WithPeer(t.Context(), conn)
}

// The plan of an intent names the variables of its agents, and an approval binds the names. The request that starts the run brings
// the values, or is refused before anything is recorded; the audit log holds none.
func TestAgentEnvOfIntents(t *testing.T) {
	runs, facts := starter{}, newSchedulers(t).store
	x := &Pipeline{Facts: &govern.Ledger{Store: facts}, Executor: runs, BaseOf: func(context.Context, string) (string, policy.Policy, error) { return "", policy.New(""), nil }}
	ctx := asPeer(t)
	named := []string{"DEMO_KEY"}
	values := api.Values{Secrets: map[string]string{"DEMO_KEY": "canary-71f0"}}
	refused := func(what string, err error) {
		t.Helper()
		if p := fault.As(err); p == nil || p.Code != "agent_env_missing" || p.Exit != 2 || !strings.Contains(p.Message, "DEMO_KEY") {
			t.Errorf("%s: %v, want agent_env_missing that names DEMO_KEY", what, err)
		}
	}
	entries := func() (n int) {
		t.Helper()
		if err := facts.Audit("", 0, func(e audit.Entry) error {
			if strings.Contains(string(e.Body), "canary") {
				t.Errorf("the audit log holds the value: %s", e.Body)
			}
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}

	// The policy lets this kind start at once.
	at := api.IntentRequest{Kind: "health_detect", Key: "safe", AgentEnv: named}
	_, err := x.CreateIntent(ctx, at)
	refused("create", err)
	if entries() != 0 {
		t.Error("a refused intent is recorded")
	}
	at.Values = values
	if s, err := x.CreateIntent(ctx, at); err != nil || runs[s.Run].Secrets["DEMO_KEY"] != "canary-71f0" || !slices.Equal(runs[s.Run].AgentEnv, named) {
		t.Errorf("create: %v, and the run got %+v", err, runs[s.Run])
	}
	at.Values = api.Values{}
	if _, err := x.CreateIntent(ctx, at); err != nil {
		t.Errorf("create the same again, whose run has its values: %v", err)
	}

	// This kind waits for a person, who brings the value.
	s, err := x.CreateIntent(ctx, api.IntentRequest{Kind: "sprite_task_exec", Key: "asks", AgentEnv: named})
	if err != nil || s.Status != intent.Gated || !slices.Equal(s.Plan.AgentEnv, named) {
		t.Fatalf("create: %+v, %v", s, err)
	}
	other := s.Plan
	if other.AgentEnv = nil; other.Digest() == s.Digest {
		t.Error("the digest does not bind the names")
	}
	before := entries()
	_, err = x.DecideIntent(ctx, s.ID, api.IntentDecision{Decision: "approve"})
	refused("approve", err)
	if entries() != before {
		t.Error("an approval that starts no run is recorded")
	}
	if s, err = x.DecideIntent(ctx, s.ID, api.IntentDecision{Decision: "approve", Values: values}); err != nil || runs[s.Run].Secrets["DEMO_KEY"] != "canary-71f0" {
		t.Errorf("approve: %v, and the run got %+v", err, runs[s.Run])
	}

	// The process ended before the run began: starting it again needs the value again.
	maps.DeleteFunc(runs, func(id string, _ api.RunRequest) bool { return id == s.Run })
	_, err = x.DecideIntent(ctx, s.ID, api.IntentDecision{Decision: "approve"})
	refused("approve after a crash", err)
	if _, err := x.DecideIntent(ctx, s.ID, api.IntentDecision{Decision: "approve", Values: values}); err != nil || runs[s.Run].Secrets["DEMO_KEY"] == "" {
		t.Errorf("approve after a crash: %v, and the run got %+v", err, runs[s.Run])
	}
	entries()
}
