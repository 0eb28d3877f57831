package govern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

var errKilled = errors.New("killed")

// outside is the world outside of sprites, as package publish, the vault and the spool of messages show it: an effect has a key, and the
// same key again finds it there. The process is killed at its n-th step; each effect has a step before it and one after it.
type outside struct {
	action.Publisher
	killAt, step int
	effects      map[string]int // how often each key arrived
}

func (o *outside) kill() error {
	o.step++
	if o.step == o.killAt {
		return errKilled
	}
	return nil
}

func (o *outside) effect(key string) error {
	if err := o.kill(); err != nil {
		return err
	}
	o.effects[key]++
	return o.kill()
}

func (o *outside) PostComment(_ context.Context, _ forge.Place, key string, number int64, _ string) (forge.Published, error) {
	return forge.Published{Number: number}, o.effect(key)
}

func (o *outside) AddLabels(_ context.Context, _ forge.Place, number int64, labels []string) error {
	return o.effect(fmt.Sprint(number, labels))
}

func (o *outside) Check(protocol.FetchCredential) error { return nil }

func (o *outside) Grant(_ context.Context, a lattice.Action, _ protocol.FetchCredential) ([]byte, error) {
	return []byte(`{}`), o.effect(a.Key)
}

// A process that is killed at any step between the approval of an action and the record of its outcome has the action performed
// once: the repetition has the same key, and the audit log tells of one beginning and one outcome. Pushes and pull requests have their
// tests where they are performed, since their effects are branches.
func TestEachActionIsPerformedOnce(t *testing.T) {
	place := json.RawMessage(`{"place":{"forge":"main","path":{"owner":"a","name":"b"},"repository_id":1}}`)
	for name, parameters := range map[string]string{
		protocol.ActionPostComment:     `{"number":7,"body":"b"}`,
		protocol.ActionLabelIssue:      `{"number":7,"labels":["bug"]}`,
		protocol.ActionNotifyUser:      `{"title":"t"}`,
		protocol.ActionFetchCredential: `{"name":"npm","purpose":"publish"}`,
	} {
		for killAt := range 3 { // 0: never
			s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
			if err != nil {
				t.Fatal(err)
			}
			l, o := &Ledger{Store: s}, &outside{killAt: killAt, effects: map[string]int{}}
			w := Witness{Ledger: l, Fulfiller: action.New(action.Options{Publisher: o, Credentials: o, Notify: func(a lattice.Action) error { return o.effect(a.Key) },
				RepoOf: func(string) (string, string, bool) { return "", "", false }})}
			a := lattice.Action{RunID: "run1", CallID: "c", Key: "key1", Name: name, Parameters: json.RawMessage(parameters)}
			if action.AtForge(name) {
				a.Binding = place
			}
			if _, err := w.Do(t.Context(), a); errors.Is(err, errKilled) != (killAt > 0) {
				t.Errorf("%s, killed at step %d: %v", name, killAt, err)
			}
			for range 2 { // and once more, as a person who approves it again
				if _, err := w.Do(t.Context(), a); err != nil {
					t.Errorf("%s, killed at step %d, again: %v", name, killAt, err)
				}
			}
			if len(o.effects) != 1 {
				t.Errorf("%s, killed at step %d: the effects %v, want one", name, killAt, o.effects)
			}
			var told []string
			if err := l.eachAction("run1", func(e audit.Entry, _ actionBody) { told = append(told, string(e.Kind)) }, audit.ActionBegun, audit.ActionPerformed, audit.ActionFailed); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(told, " "); got != "action.begun action.performed" {
				t.Errorf("%s, killed at step %d: the log tells %s", name, killAt, got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
