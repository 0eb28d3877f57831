package skill_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

func TestInterruptedCallIsCancelledAndMayRunAgain(t *testing.T) {
	b, n := newBench(t), 0
	ctx, cancel := context.WithCancel(context.Background())
	o := b.callCtx(ctx, manifests.ClassSprite, `{"path":"a"}`, func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		cancel()
		<-ctx.Done()
		return skill.Result{}, errors.New("killed")
	})
	want := []string{"PHASE_STARTED", "PHASE_FINISHED"}
	if o.exit != protocol.ExitCancelled || o.result.Error.Code != "cancelled" || !cmp.Equal(o.types(), want) {
		t.Errorf("exit %d, %+v, events %v", o.exit, o.result.Error, o.types())
	}
	if b.call(manifests.ClassSprite, `{"path":"a"}`, count(&n)); n != 1 {
		t.Errorf("ran %d times after the interruption, want 1", n)
	}
}

func TestCallStoppedByAFullDiskMayRunAgain(t *testing.T) {
	b, n := newBench(t), 0
	o := b.call(manifests.ClassSprite, `{"path":"a"}`, func(context.Context, *skill.Call) (skill.Result, error) {
		return skill.Result{}, &os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}
	})
	if o.exit != protocol.ExitLimit || !o.result.Error.Retryable {
		t.Errorf("exit %d, %+v, want 9 and retryable", o.exit, o.result.Error)
	}
	if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&n)); n != 1 || o.exit != 0 {
		t.Errorf("ran %d times after space was freed, exit %d; want 1, 0", n, o.exit)
	}
}
