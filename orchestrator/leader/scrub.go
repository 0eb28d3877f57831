package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/modelroute"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// scrubWait bounds how long a checkpoint waits for scrub.
const scrubWait = 30 * time.Second

// Scrub removes the keys that agents in a sprite were handed over from their homes, before its files are kept. Copies that
// an agent made elsewhere stay.
func (l *Leader) Scrub(ctx context.Context, sprite string) error {
	values := l.agents.handedOver(sprite, func() []string {
		s, err := l.client.Get(ctx, sprite)
		if err != nil {
			return nil
		}
		return s.Labels
	})
	if len(values) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scrubWait)
	defer cancel()
	list, err := json.Marshal(values)
	var said bytes.Buffer
	if err == nil {
		var code int
		code, err = l.client.Exec(ctx, sprite, sprites.Exec{Cmd: []string{"/skills/spritekit", "scrub"}, Stdin: bytes.NewReader(list), Stdout: &said, Stderr: &said})
		if err == nil && code != 0 {
			err = fmt.Errorf("spritekit scrub ends with %d: %.300s", code, said.String())
		}
	}
	if err != nil {
		return fmt.Errorf("take keys out of sprite %s: %w", sprite, err)
	}
	return nil
}

// handedOver lists the keys that runs in a sprite handed over to their agents. Only its labels say whose copy a sprite is.
func (a *agents) handedOver(sprite string, labels func() []string) (values []string) {
	for _, run := range slices.Compact(slices.Sorted(slices.Values(append(a.values.Runs(), a.vault.ListHolders()...)))) {
		keys := slices.Collect(maps.Values(a.vault.Values(context.Background(), run)))
		for _, kv := range a.environ(run, sprite) {
			name, value, _ := strings.Cut(kv, "=")
			if secret.IsSecret(name, value) && !modelroute.IsPass(value) {
				keys = append(keys, value)
			}
		}
		rec, err := a.records.Load(run)
		if err != nil || len(keys) == 0 {
			continue
		}
		if rec.Sprite != sprite {
			of := labels()
			if !slices.Contains(of, retention.CopyLabel(run)) && !slices.Contains(of, history.LabelOf(run)) {
				continue
			}
		}
		values = append(values, keys...)
	}
	return values
}
