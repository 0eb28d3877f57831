package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// What runs of a sibling is not a call's own, from the moment on that its process begins.
func TestProcessRegistry(t *testing.T) {
	r := newProcessRegistry()
	named, ended, err := r.registerProcess(t.Context(), "s", "call_a")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(chan bool)
	go func() {
		leave, err := r.lockProcesses(t.Context(), "s")
		if err != nil {
			t.Error(err)
		}
		listed <- r.belongsToOther("7", "call_b") && !r.belongsToOther("7", "call_a") && !r.belongsToOther("8", "call_b")
		leave()
	}()
	if leave, err := r.lockProcesses(t.Context(), "another"); err != nil {
		t.Error(err)
	} else {
		leave()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.lockProcesses(gone, "s"); err == nil {
		t.Error("entered while a process begins")
	}
	named("7")
	if !<-listed {
		t.Error("the process of call_a is not told from those of others")
	}
	ended()
	if r.belongsToOther("7", "call_b") {
		t.Error("the process of a call that has ended still belongs to it")
	}
	if _, ended, err := r.registerProcess(t.Context(), "s", "call_c"); err != nil {
		t.Error(err)
	} else {
		ended() // never named
	}
}

// busy is a host on which two calls of one skill run; each waits until it is killed or told to end.
type busy struct {
	Host
	mu      sync.Mutex // guards running
	running map[string]chan struct{}
	begun   chan string
}

func (b *busy) Exec(ctx context.Context, _ string, e sprites.Exec) (int, error) {
	b.mu.Lock()
	id := fmt.Sprint(len(b.running))
	killed := make(chan struct{})
	b.running[id] = killed
	b.mu.Unlock()
	e.OnSession(id)
	b.begun <- id
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-killed:
		return protocol.ExitCancelled, nil
	}
}

func (b *busy) Sessions(context.Context, string) ([]sprites.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []sprites.Session
	for id := range b.running {
		all = append(all, sprites.Session{ID: id, Command: "/skills/look"})
	}
	return all, nil
}

func (b *busy) Kill(_ context.Context, _, id, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.running[id])
	delete(b.running, id)
	return nil
}

// A call that is given up takes its own process with it, and not that of the call beside it.
func TestStopSparesConcurrentCall(t *testing.T) {
	b := &busy{running: map[string]chan struct{}{}, begun: make(chan string)}
	s := New(b, Options{})
	call := func(ctx context.Context, id string) chan error {
		ended := make(chan error)
		go func() {
			_, err := s.Call(ctx, lattice.Call{ID: id, Sprite: "s", Skill: "look", Class: manifests.ClassRead}, func(lattice.Event) {})
			ended <- err
		}()
		return ended
	}
	stay, stop := context.WithCancel(t.Context())
	defer stop()
	staying := call(stay, "call_a")
	kept := <-b.begun
	gone, cancel := context.WithCancel(t.Context())
	leaving := call(gone, "call_b")
	<-b.begun
	cancel()
	if err := <-leaving; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was given up: %v, want context.Canceled", err)
	}
	b.mu.Lock()
	if _, ok := b.running[kept]; !ok || len(b.running) != 1 {
		t.Errorf("running: %v, want %s alone", b.running, kept)
	}
	b.mu.Unlock()
	stop()
	<-staying
}

// cutHost is a host that breaks before it sends a byte of an input.
type cutHost struct {
	Host
	environ []string
}

func (h *cutHost) Exec(_ context.Context, _ string, e sprites.Exec) (int, error) {
	h.environ = e.Env
	return 0, errors.New("the host is gone")
}

// A skill learns how long its input is: the stdin of a call whose host dies ends as that of a call without input does.
func TestCallAnnouncesItsInput(t *testing.T) {
	h := &cutHost{}
	input := []byte(`{"path":"a"}`)
	s := New(h, Options{})
	s.alone["s"] = true // a shared exec sends the length of each input
	_, err := s.Call(t.Context(), lattice.Call{ID: "call_a", Sprite: "s", Skill: "look", Class: manifests.ClassRead, Input: input}, func(lattice.Event) {})
	if want := fmt.Sprint("LATTICE_STDIN_BYTES=", len(input)); err == nil || !slices.Contains(h.environ, want) {
		t.Errorf("the call had the environment %q, want %s; error %v", h.environ, want, err)
	}
}
