package skill_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
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

// A call that was killed after its result was in the outbox and before its journal knew has one result, not two.
func TestCallKilledBetweenItsRecordsHasOneResult(t *testing.T) {
	failing := func(n *int) skill.Func {
		return func(context.Context, *skill.Call) (skill.Result, error) {
			*n++
			return skill.Result{}, fault.NotFound("not_found", "nothing is there")
		}
	}
	for _, class := range []manifests.Class{manifests.ClassIdempotent, manifests.ClassSprite, manifests.ClassWorld} {
		for name, tc := range map[string]struct {
			run  func(*int) skill.Func
			exit int
		}{"done": {count, 0}, "failed": {failing, protocol.ExitNotFound}} {
			t.Run(string(class)+" "+name, func(t *testing.T) {
				b, n := newBench(t), 0
				first := b.call(class, `{"path":"a"}`, tc.run(&n))
				started, _, _ := strings.Cut(b.read(".lattice/calls/c1.jsonl"), "\n")
				b.write(".lattice/calls/c1.jsonl", started+"\n")
				again := b.call(class, `{"path":"a"}`, tc.run(&n))
				if n != 1 || again.exit != tc.exit || len(again.events) != 0 || !cmp.Equal(again.result, first.result) {
					t.Errorf("ran %d times, exit %d, events %v, result differs: %s", n, again.exit, again.types(), cmp.Diff(first.result, again.result))
				}
				if got := strings.Count(b.read(protocol.OutboxFile), `"kind":"result"`); got != 1 {
					t.Errorf("the outbox has %d results of one call", got)
				}
			})
		}
	}
}

// The same holds for work that cleaned the outbox away: the journal tells of a place that the new one does not have.
func TestResultInAnOutboxThatWasMadeAnewIsFound(t *testing.T) {
	b, n := newBench(t), 0
	b.write(protocol.OutboxFile, strings.Repeat(`{"event_type":"INFO","payload":{"message":"x"}}`+"\n", 1000))
	work := func(context.Context, *skill.Call) (skill.Result, error) {
		n++
		return skill.Result{}, os.Remove(filepath.Join(b.dir, protocol.OutboxFile))
	}
	b.call(manifests.ClassSprite, `{"path":"a"}`, work)
	started, _, _ := strings.Cut(b.read(".lattice/calls/c1.jsonl"), "\n")
	b.write(".lattice/calls/c1.jsonl", started+"\n")
	if o := b.call(manifests.ClassSprite, `{"path":"a"}`, work); o.exit != 0 || n != 1 {
		t.Errorf("ran %d times, exit %d, %+v; want once", n, o.exit, o.result.Error)
	}
}

// Work that puts something else in the outbox's place has failed, however well it went; the caller learns what to remove.
func TestOutboxReplacedDuringTheCall(t *testing.T) {
	b, n := newBench(t), 0
	outbox := filepath.Join(b.dir, protocol.OutboxFile)
	o := b.call(manifests.ClassSprite, `{"path":"a"}`, func(context.Context, *skill.Call) (skill.Result, error) {
		return skill.Result{}, errors.Join(os.Remove(outbox), os.Mkdir(outbox, 0o755))
	})
	if e := o.result.Error; o.exit != protocol.ExitUnsafe || e == nil || !strings.Contains(e.Message, "is a directory") || !strings.Contains(e.Hint, "remove it") {
		t.Errorf("exit %d, %+v", o.exit, e)
	}
	if err := os.Remove(outbox); err != nil {
		t.Fatal(err)
	}
	if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&n)); o.exit != 0 || n != 1 {
		t.Errorf("once it is removed: exit %d, ran %d times, %+v", o.exit, n, o.result.Error)
	}
}

// What the outbox says of an earlier attempt, of another call or skill, or nonsense, is not taken for the result.
func TestPlantedResultsAreNotAdopted(t *testing.T) {
	info := func(call, metadata string) string {
		return `{"protocol_version":"v1","event_type":"INFO","event_id":"01M7YCPC67PRTYG64CCR435EHA","call_id":"` + call +
			`","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-01T00:00:00.000000000Z","payload":{"message":"r","kind":"result","metadata":` + metadata + "}}\n"
	}
	for name, planted := range map[string]string{
		"another call":        info("c2", `{"ok":true,"skill":"demo.do","call_id":"c2","data":{},"events":0}`),
		"another skill":       info("c1", `{"ok":true,"skill":"fs.read","call_id":"c1","data":{},"events":0}`),
		"two minds":           info("c1", `{"ok":true,"skill":"demo.do","call_id":"c1","data":{},"events":0,"exit":3}`),
		"a failure without":   info("c1", `{"ok":false,"skill":"demo.do","call_id":"c1","error":{"code":"x","message":"m","retryable":false},"events":0}`),
		"a wait":              info("c1", `{"ok":true,"skill":"demo.do","call_id":"c1","waiting":{"reason":"x","checkpoint_id":"v1"},"events":0}`),
		"a digest":            info("c1", `{"ok":true,"skill":"demo.do","size":3,"sha256":"x"}`),
		"garbage and torn":    "\x00\xff\n" + `{"event_type":"INFO","call_id":"c1"`,
		"a line without end":  strings.Repeat("x", 3<<20),
		"an interrupted call": info("c1", `{"ok":false,"skill":"demo.do","call_id":"c1","error":{"code":"cancelled","message":"m","retryable":false},"events":0,"exit":130}`),
	} {
		t.Run(name, func(t *testing.T) {
			b, n := newBench(t), 0
			b.call(manifests.ClassSprite, `{"path":"a"}`, count(&n))
			started, _, _ := strings.Cut(b.read(".lattice/calls/c1.jsonl"), "\n")
			b.write(".lattice/calls/c1.jsonl", started+"\n")
			b.write(protocol.OutboxFile, planted)
			if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&n)); n != 2 || o.exit != 0 {
				t.Errorf("ran %d times, exit %d, %+v; want the work done again", n, o.exit, o.result)
			}
		})
	}
}
