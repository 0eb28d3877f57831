package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// newVaults returns a function that makes vaults of one store, each as a leader of its own has it, and the logs of runs.
func newVaults(t *testing.T, uses int) (newVault func() *Vault, log *strings.Builder) {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	log = new(strings.Builder)
	var mu sync.Mutex
	to := writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	})
	npm := secret.Source{Name: "npm", Provider: "env", Variable: "NPM_TOKEN", Skills: []string{"exec.run"}, TTL: time.Hour, Uses: uses,
		Resolve: func(context.Context, secret.Request) (string, error) { return "canary-value", nil }}
	return func() *Vault {
		return &Vault{Facts: &govern.Ledger{Store: s}, Sources: map[string]secret.Source{"npm": npm}, OutputOf: func(string) io.Writer { return to },
			ResolveRun: func(id string) (string, error) {
				if id != "run_1" {
					return "", fault.NotFound("run_not_found", "there is no run %s", id)
				}
				return id, nil
			}}
	}, log
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// grant makes the lease of run_1, and returns its id.
func grant(t *testing.T, v *Vault) string {
	t.Helper()
	raw, err := v.Grant(t.Context(), lattice.Action{RunID: "run_1", Key: "k", Sprite: "box"}, protocol.FetchCredential{Name: "npm", Purpose: "publish"})
	var reply struct{ Lease string }
	if err != nil || json.Unmarshal(raw, &reply) != nil || reply.Lease == "" {
		t.Fatalf("Grant = %s, %v", raw, err)
	}
	return reply.Lease
}

// gets reports whether a call of run_1 is handed the secret.
func gets(ctx context.Context, v *Vault, call string) (bool, error) {
	env, err := v.Env(ctx, lattice.Call{ID: call, RunID: "run_1", Sprite: "box", Skill: "exec.run", Input: json.RawMessage(`{"env_allow":["NPM_TOKEN"]}`)})
	return len(env) > 0 && env[0] == "NPM_TOKEN=canary-value", err
}

// A person ends a lease that is in use, by its id, its secret or its run: no later call gets the secret, and the audit log and
// the run's log say why.
func TestRevokeActiveLease(t *testing.T) {
	for _, by := range []string{"lease", "npm", "run_1"} {
		t.Run(by, func(t *testing.T) {
			newVault, log := newVaults(t, 5)
			v := newVault()
			of := by
			if lease := grant(t, v); by == "lease" {
				of = lease
			}
			if ok, err := gets(t.Context(), v, "call_1"); !ok || err != nil {
				t.Fatalf("the first call gets the secret: %t, %v", ok, err)
			}
			if ended, err := newVault().RevokeSecrets(t.Context(), of); err != nil || len(ended) != 1 {
				t.Fatalf("RevokeSecrets = %+v, %v", ended, err)
			}
			for _, call := range []string{"call_1", "call_2"} { // also not a call that had it
				if ok, err := gets(t.Context(), v, call); ok || err != nil {
					t.Errorf("after the revocation %s gets the secret: %t, %v", call, ok, err)
				}
			}
			if ended, err := v.RevokeSecrets(t.Context(), of); err != nil || len(ended) != 0 {
				t.Errorf("RevokeSecrets again = %+v, %v", ended, err)
			}
			if !strings.Contains(log.String(), "exec.run does not get the secret npm: it is revoked: by a person") {
				t.Errorf("log of the run: %q", log)
			}
			var kinds []string
			if err := v.Facts.AuditEntries(t.Context(), subject, 0, func(e audit.Entry) error {
				var f secret.Fact
				kinds = append(kinds, string(e.Body))
				if strings.Contains(string(e.Body), "canary") {
					t.Errorf("the audit log holds the value: %s", e.Body)
				}
				return json.Unmarshal(e.Body, &f)
			}); err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(kinds, "\n"); strings.Count(all, `"kind":"revoked"`) != 1 || strings.Count(all, `"kind":"withheld"`) != 2 {
				t.Errorf("audit log:\n%s", all)
			}
		})
	}
	newVault, _ := newVaults(t, 1)
	if _, err := newVault().RevokeSecrets(t.Context(), "lease_none"); fault.As(err) == nil || fault.As(err).Code != "lease_not_found" {
		t.Errorf("RevokeSecrets = %v, want lease_not_found", err)
	}
}

// leaseState is a lease as one process alone would see it.
type leaseState struct {
	left    int // uses
	revoked bool
	calls   string // those that were handed the secret, each between commas
}

// leaseModel judges a history of calls that want the secret, by their ids, and of revocations, "". The output is whether a call
// got it.
var leaseModel = porcupine.Model{
	Init: func() any { return leaseState{left: leaseUses} },
	Step: func(state, input, output any) (bool, any) {
		s, call, got := state.(leaseState), input.(string), output.(bool)
		again := strings.Contains(s.calls, ","+call+",")
		switch {
		case call == "":
			s.revoked = true
			return true, s
		case s.revoked || !again && s.left == 0:
			return !got, s
		case !again:
			s.left, s.calls = s.left-1, s.calls+","+call+","
		}
		return got, s
	},
}

const leaseUses = 5

// Eight leaders that take over from each other in the midst of calls hand out a lease as one would: to as many calls as it has
// uses, and to none after its revocation.
func TestLeasesAtOnce(t *testing.T) {
	for seed := range uint64(6) {
		newVault, _ := newVaults(t, leaseUses)
		grant(t, newVault())
		var mu sync.Mutex
		var history []porcupine.Operation
		start := time.Now()
		var wg sync.WaitGroup
		for client := range 8 {
			v, r := newVault(), rand.New(rand.NewPCG(seed, uint64(client)))
			wg.Go(func() {
				for n := range 3 {
					op := porcupine.Operation{ClientId: client, Input: fmt.Sprintf("call_%d", r.IntN(9)), Output: false, Call: time.Since(start).Nanoseconds()}
					var err error
					if client == 0 && n == 2 && seed%2 == 0 {
						op.Input = ""
						_, err = v.RevokeSecrets(context.Background(), "npm")
					} else {
						op.Output, err = gets(context.Background(), v, op.Input.(string))
					}
					op.Return = time.Since(start).Nanoseconds()
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if !porcupine.CheckOperations(leaseModel, history) {
			t.Fatalf("seed %d: the history is not linearizable: %+v", seed, history)
		}
	}
}
