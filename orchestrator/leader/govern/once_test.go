package govern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// outside is the world outside of sprites, as package publish, the vault and the spool of messages show it: an effect has a key, and the
// same key again finds it there. Its effects are lines of a file, so that they outlive the process. The process is killed at its n-th
// step; each effect has a step before it and one after it.
type outside struct {
	action.Publisher
	file         string
	killAt, step int
}

func (o *outside) reach() {
	if o.step++; o.step == o.killAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (o *outside) effect(key string) error {
	o.reach()
	done, err := os.ReadFile(o.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !slices.Contains(strings.Split(string(done), "\n"), key) {
		if err := os.WriteFile(o.file, append(done, key+"\n"...), 0o600); err != nil {
			return err
		}
	}
	o.reach()
	return nil
}

func (o *outside) PostComment(_ context.Context, _ forge.Place, a forge.Attempt, number int64, _ string) (forge.Published, error) {
	return forge.Published{Number: number}, o.effect(a.Key)
}

func (o *outside) AddLabels(_ context.Context, _ forge.Place, number int64, labels []string) error {
	return o.effect(fmt.Sprint(number, labels))
}

func (o *outside) OpenIssues(_ context.Context, _ forge.Place, _ time.Time, keys []string, all []forge.NewIssue) ([]forge.Published, error) {
	return make([]forge.Published, len(all)), o.effect(strings.Join(keys, " "))
}

func (o *outside) Check(protocol.FetchCredential) error { return nil }

func (o *outside) Grant(_ context.Context, a lattice.Action, _ protocol.FetchCredential) ([]byte, error) {
	return []byte(`{}`), o.effect(a.Key)
}

// killedEnv makes the test binary the process that performs actions and is killed: its value is the step, the folder and the action.
const killedEnv = "GOVERN_TEST_KILLED"

// parametersOf has the parameters of each kind of action whose effect is not a branch.
var parametersOf = map[string]string{
	protocol.ActionPostComment:     `{"number":7,"body":"b"}`,
	protocol.ActionLabelIssue:      `{"number":7,"labels":["bug"]}`,
	protocol.ActionOpenIssues:      `{"document":"seed.md","issues":[{"key":"a","title":"A"},{"key":"b","title":"B"}]}`,
	protocol.ActionNotifyUser:      `{"title":"t"}`,
	protocol.ActionFetchCredential: `{"name":"npm","purpose":"publish"}`,
}

// performIn requests, approves and performs an action, with the store and the effects of a folder.
func performIn(t *testing.T, dir, name string, killAt int) {
	t.Helper()
	s, err := store.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := &outside{killAt: killAt, file: filepath.Join(dir, "effects")}
	l := &Ledger{Store: s}
	people := &Approvals{Ledger: l, PolicyOf: func(context.Context, string) (policy.Policy, error) { return policy.New(""), nil }, RepoOf: func(string) (string, string, bool) { return "", "", false }}
	w := Witness{Ledger: l, Fulfiller: action.New(action.Options{Publisher: o, Credentials: o, Notify: func(a lattice.Action) error { return o.effect(a.Key) },
		RepoOf: func(string) (string, string, bool) { return "", "", false }})}
	a := lattice.Action{RunID: "run1", CallID: "c", Key: "key1", Name: name, Parameters: json.RawMessage(parametersOf[name])}
	if action.AtForge(name) {
		a.Binding = json.RawMessage(`{"place":{"forge":"main","path":{"owner":"a","name":"b"},"repository_id":1}}`)
	}
	if err := l.RecordJudged(t.Context(), action.Judged{Action: a, Decision: lattice.Ask}); err != nil {
		t.Error(err)
	}
	o.reach()
	if err := people.Decide(t.Context(), a, "", lattice.Approve, ""); err != nil && name != protocol.ActionFetchCredential { // which only settings allow
		t.Errorf("approve %s: %v", name, err)
	}
	o.reach()
	if _, err := w.Do(t.Context(), a); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	o.reach()
}

// A process that is killed with -9 after any write of the audit log, from the request of an action to the record of its outcome,
// before or after its effect, has the action performed once: the repetition has the same key, and the log tells of one request, one
// beginning and one outcome. The effects of pushes and pull requests are branches; TestKillEverywhere and the script forge-killed kill them.
func TestEachActionIsPerformedOnce(t *testing.T) {
	if at, killed := os.LookupEnv(killedEnv); killed {
		var step int
		var dir, name string
		if _, err := fmt.Sscan(at, &step, &dir, &name); err != nil {
			t.Fatal(err)
		}
		performIn(t, dir, name, step)
		t.Fatal("the process was not killed")
	}
	for name := range parametersOf {
		for killAt := range 6 { // 0: never
			dir := t.TempDir()
			if killAt > 0 {
				cmd := exec.Command(os.Args[0], "-test.run=^TestEachActionIsPerformedOnce$")
				cmd.Env = append(os.Environ(), fmt.Sprint(killedEnv, "=", killAt, " ", dir, " ", name))
				if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
					t.Fatalf("%s: the process was not killed at step %d: %v\n%s", name, killAt, err, out)
				}
			}
			for range 2 { // and once more, as a person who approves it again
				performIn(t, dir, name, 0)
			}
			if effects, err := os.ReadFile(filepath.Join(dir, "effects")); err != nil || strings.Count(string(effects), "\n") != 1 {
				t.Errorf("%s, killed at step %d: the effects %q, %v; want one", name, killAt, effects, err)
			}
			s, err := store.Open(filepath.Join(dir, "store.db"))
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			if err := (&Ledger{Store: s}).eachAction("run1", func(e audit.Entry, _ actionBody) { told = append(told, string(e.Kind)) }, audit.ActionRequested, audit.ActionBegun, audit.ActionPerformed, audit.ActionFailed); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(told, " "); got != "action.requested action.begun action.performed" {
				t.Errorf("%s, killed at step %d: the log tells %s", name, killAt, got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
