package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// talking gives a box without processes whose init is the other end of its socket, played by the test.
func talking(t *testing.T) (*Box, *channel.Socket) {
	t.Helper()
	host, child, err := channel.Pair()
	if err != nil {
		t.Fatal(err)
	}
	control, err := channel.NewSocket(host, channel.MaxReply)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := channel.NewSocket(child, channel.MaxRequest)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid()) // plays init
	if err != nil {
		t.Fatal(err)
	}
	b := &Box{
		cfg: spec.Config{Level: spec.LevelProcess}, cmd: &exec.Cmd{Process: self}, group: new(cgroup.Group), control: control, slots: make(chan struct{}, channel.MaxCalls), quiet: make(chan struct{}),
		done: make(chan struct{}), procs: map[uint64]*Proc{}, calls: map[uint64]chan channel.Answer{}, plain: map[int]bool{},
	}
	b.tasks.Go(b.read)
	t.Cleanup(func() {
		inner.Conn.Close()
		<-b.quiet
		control.Conn.Close()
		close(b.done)
	})
	return b, inner
}

func TestCallsAreBounded(t *testing.T) {
	b, _ := talking(t)
	if _, err := b.callInit(t.Context(), "fs.none", strings.Repeat("x", channel.MaxCall), nil, nil); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("a call that is too big = %v", err)
	}
}

// The other end may say anything; what it says must not block, crash or confuse the host.
func TestAnswers(t *testing.T) {
	b, inner := talking(t)
	answer := func(reply func(id uint64) channel.Reply, fds ...int) {
		t.Helper()
		var r channel.Request
		files, err := inner.Receive(&r)
		channel.CloseAll(files)
		if err == nil {
			err = inner.Send(reply(r.ID), fds...)
		}
		if err != nil {
			t.Error(err)
		}
	}
	said := func(r channel.Reply) func(uint64) channel.Reply {
		return func(id uint64) channel.Reply { r.Op, r.ID = channel.OpAnswer, id; return r }
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var many []int
	for range channel.MaxCallFDs + 1 {
		many = append(many, int(null.Fd()))
	}
	for _, c := range []struct {
		name  string
		reply channel.Reply
		fds   []int
		want  error // nil: an answer
		files int
	}{
		{"nothing", channel.Reply{Body: json.RawMessage(`"ok"`)}, nil, nil, 0},
		{"a descriptor", channel.Reply{Body: json.RawMessage(`"ok"`)}, many[:1], nil, 1},
		{"too many descriptors", channel.Reply{Body: json.RawMessage(`"ok"`)}, many, nil, 0},
		{"an errno", channel.Reply{Code: int(syscall.ENOENT), Error: "open /x: no such file"}, nil, fs.ErrNotExist, 0},
		{"another", channel.Reply{Code: int(syscall.EACCES)}, many[:1], fs.ErrPermission, 0},
	} {
		played := make(chan struct{})
		go func() { defer close(played); answer(said(c.reply), c.fds...) }()
		var out string
		files, err := b.callInit(t.Context(), "fs.x", 1, nil, &out)
		<-played
		channel.CloseAll(files)
		if !errors.Is(err, c.want) || len(files) != c.files || c.want == nil && out != "ok" {
			t.Errorf("%s: call = %d files, %q, %v", c.name, len(files), out, err)
		}
	}

	// A body of the wrong form, and answers that nobody asked for.
	go answer(said(channel.Reply{Body: json.RawMessage(`{"a":1}`)}))
	if _, err := b.callInit(t.Context(), "fs.x", 1, nil, new(string)); err == nil {
		t.Error("a wrong body is taken")
	}
	for range channel.MaxCalls + 1 {
		if err := inner.Send(channel.Reply{Op: channel.OpAnswer, ID: 1 << 40}, int(null.Fd())); err != nil {
			t.Fatal(err)
		}
	}

	// A call that is given up frees its place only when the answer comes, and init hears of it.
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error)
	go func() { _, err := b.callInit(ctx, "fs.slow", 1, nil, nil); given <- err }()
	var asked, cancelled channel.Request
	if _, err := inner.Receive(&asked); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call = %v", err)
	}
	if _, err := inner.Receive(&cancelled); err != nil || cancelled.Op != channel.OpCancel || cancelled.ID != asked.ID {
		t.Errorf("init hears %+v, %v", cancelled, err)
	}
	if len(b.slots) != 1 {
		t.Errorf("%d calls count, want the one given up", len(b.slots))
	}
	if err := inner.Send(channel.Reply{Op: channel.OpAnswer, ID: asked.ID}); err != nil {
		t.Fatal(err)
	}
	go answer(said(channel.Reply{}))
	if _, err := b.callInit(t.Context(), "fs.x", 1, nil, nil); err != nil || len(b.slots) != 0 {
		t.Errorf("after it: %v, %d calls count", err, len(b.slots))
	}

	// The socket ends while one waits.
	go func() { _, err := b.callInit(t.Context(), "fs.x", 1, nil, nil); given <- err }()
	if _, err := inner.Receive(&asked); err != nil {
		t.Fatal(err)
	}
	inner.Conn.Close()
	<-b.quiet
	close(b.done)
	if err := <-given; !errors.Is(err, spec.ErrDied) {
		t.Errorf("a call into the end = %v", err)
	}
	b.done = make(chan struct{}) // for the clean-up, which closes it
}

// An init that falls silent keeps nobody: neither who starts a command nor who froze the box and asks it something.
func TestSilentInit(t *testing.T) {
	b, inner := talking(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.ExecContext(ctx, spec.Process{Argv: []string{"x"}, TTY: true})
		ended <- err
	}()
	var start, kill channel.Request
	if files, err := inner.Receive(&start); err != nil || start.Op != channel.OpExec {
		t.Fatalf("init is told %q, %v, %v", start.Op, files, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ExecContext = %v", err)
	}
	if files, err := inner.Receive(&kill); err != nil || kill.Op != channel.OpSignal || kill.ID != start.ID || kill.Signal != int(syscall.SIGKILL) {
		t.Errorf("init is told %+v, %v, %v", kill, files, err)
	}
	// It starts after all: its terminal is nobody's.
	r, w, err := os.Pipe()
	if err == nil {
		err = inner.Send(channel.Reply{Op: channel.OpStarted, ID: start.ID, PID: 7}, int(w.Fd()))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer r.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the descriptor of a command that nobody waits for stays open: %d, %v", n, err)
	}

	b.mu.Lock()
	b.awake = make(chan struct{})
	b.mu.Unlock()
	if _, err := b.callInit(ctx, "fs.none", nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("call of a frozen box = %v", err)
	}
}
