package host

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// While keys cannot be taken out of a sprite's files, the files are not kept: a checkpoint and a fork are refused. A restore
// succeeds, because it may be the remedy, and the checkpoint of the state before it says what it may hold.
func TestKeysKept(t *testing.T) {
	var failure error
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop(), Reserve: -1, BeforeCheckpoint: func(context.Context, string) error { return failure }}, func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	first, err := w.client.Checkpoint(t.Context(), "s", "first")
	if err != nil {
		t.Fatal(err)
	}

	failure = errors.New("the agent is in the way")
	_, checkpoint := w.client.Checkpoint(t.Context(), "s", "")
	_, fork := w.client.Fork(t.Context(), "s", sprites.Current, "copy")
	for what, err := range map[string]error{"checkpoint": checkpoint, "fork": fork} {
		var refused *sprites.APIError
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Code != "keys_kept" || !strings.Contains(err.Error(), "the agent is in the way") {
			t.Errorf("%s = %v, want %s", what, err, sprites.CodeKeysKept)
		}
	}
	// A failure that passes is not taken for one that lasts.
	failure = &sprites.APIError{Status: http.StatusInternalServerError, Code: "internal"}
	if _, err := w.client.Checkpoint(t.Context(), "s", ""); err == nil || strings.Contains(err.Error(), "keys_kept") {
		t.Errorf("checkpoint while the host fails = %v", err)
	}
	failure = errors.New("the agent is in the way")
	if _, err := w.client.Fork(t.Context(), "s", first.ID, "copy"); err != nil {
		t.Errorf("fork of a checkpoint that is there: %v", err)
	}
	if err := w.client.Restore(t.Context(), "s", first.ID); err != nil {
		t.Fatal(err)
	}
	all, err := w.client.AllCheckpoints(t.Context(), "s")
	if err != nil || len(all) != 2 {
		t.Fatalf("checkpoints %+v, %v, want the first and the state before the restore", all, err)
	}
	for _, c := range all {
		if c.IsAuto != strings.HasSuffix(c.Comment, "it may hold keys of agents: the agent is in the way") {
			t.Errorf("checkpoint %s has the comment %q", c.ID, c.Comment)
		}
	}
}
