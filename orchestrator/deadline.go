package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// endWithin is how long the process may take to end after a signal.
const endWithin = 20 * time.Second

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the process at once, which is
// for what cannot be called off, such as reading a backup from a terminal. So does time: whatever hangs, the process ends
// within endWithin, and what it was doing can be resumed as after kill -9.
func (d *deps) untilSignal() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		d.deadline.begin(func() {
			fmt.Fprintf(d.err, "lattice: it did not end within %v of a signal and is ended by force%s\n", d.deadline.within, d.writeStacks())
			d.exit(protocol.ExitCancelled)
		})
	})
	return ctx, stop
}

// writeStacks writes down where each goroutine hangs, for who looks for the reason, and says where.
func (d *deps) writeStacks() string {
	if d.home == "" {
		return ""
	}
	stacks := make([]byte, 4<<20)
	logs := leader.Home(d.home).Logs()
	_ = os.Mkdir(logs, 0o700) // without a home there is nothing to lead, and no log
	path := filepath.Join(logs, "hang.log")
	if os.WriteFile(path, stacks[:runtime.Stack(stacks, true)], 0o600) != nil {
		return ""
	}
	return "; what it was doing is in " + path
}

// deadline runs a func some time after begin.
type deadline struct {
	within time.Duration

	mu     sync.Mutex // guards the fields below
	passed func()     // not nil after begin
	paused int
	timer  *time.Timer // not nil while time runs
}

func (e *deadline) begin(passed func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = passed
	e.run()
}

// run starts the time, or stops it, as the fields say. mu is held.
func (e *deadline) run() {
	switch {
	case e.passed == nil:
	case e.paused == 0 && e.timer == nil:
		e.timer = time.AfterFunc(e.within, e.passed)
	case e.paused > 0 && e.timer != nil:
		e.timer.Stop()
		e.timer = nil
	}
}

// pause stops the time until resume is called: signals are somebody else's meanwhile.
func (e *deadline) pause() (resume func()) {
	change := func(by int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.paused += by
		e.run()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}
