// Package peer is what the harness and the engines share: a flow, its steps, and how a server that an engine needs is
// started and ended. Start with Engine. It measures nothing.
package peer

import (
	"context"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// Engine runs flows durably: what a step leaves behind is on disk before the next one begins.
type Engine interface {
	// Run returns when the flow has ended and that is on disk. Many may run at once.
	Run(ctx context.Context, f Flow) error
	// About says which version this is, and what it does more or less than the others.
	About() string
	// Close ends everything that Open started.
	Close() error
}

// Kind is one kind of engine. Open works in a folder of its own; an error says why this engine is left out.
type Kind struct {
	Name string
	Open func(ctx context.Context, dir string) (Engine, error)
}

// Lengths are the numbers of steps that flows have.
var Lengths = []int{1, 10, 100}

// Flow is so many steps, one after another. Engines pass it along as it is.
type Flow struct {
	ID    string `json:"id"`
	Steps int    `json:"steps"`
	Fork  bool   `json:"fork"` // each step is a process
}

var made atomic.Int64

// Made is how many steps were made so far, in this process.
func Made() int64 { return made.Load() }

// Step is what each step does: nothing, or a process that is given JSON and waited for.
func (f Flow) Step(ctx context.Context) error {
	made.Add(1)
	if !f.Fork {
		return nil
	}
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.Stdin = strings.NewReader(`{"a":1,"b":"some text"}`)
	return cmd.Run()
}

// Waiting are the flows, by their ids, whose ends are awaited in this process.
type Waiting struct{ flows sync.Map }

// Run begins a flow and waits for its end.
func (w *Waiting) Run(ctx context.Context, f Flow, begin func() error) error {
	ended := make(chan error, 1)
	w.flows.Store(f.ID, ended)
	if err := begin(); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends a flow.
func (w *Waiting) End(f Flow, err error) {
	if ended, ok := w.flows.LoadAndDelete(f.ID); ok {
		ended.(chan error) <- err
	}
}

// Version is that of a module in this program.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo() // always there in what go build makes
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "of unknown version"
}
