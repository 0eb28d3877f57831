package services

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/program"
)

// leavePipe keeps the pipe of an ended process open. Beyond maxLeft it closes the oldest one: otherwise a sprite could use up the
// descriptors of the host.
func (v *Set) leavePipe(ours *os.File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = append(v.left, ours)
	for len(v.left) > maxLeft {
		v.left[0].Close() // a process that still writes to it gets an error
		v.left = v.left[1:]
	}
}

// forgetPipe forgets a pipe that is closed.
func (v *Set) forgetPipe(ours *os.File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = slices.DeleteFunc(v.left, func(one *os.File) bool { return one == ours })
}

// awaitStep waits for the end of the current step.
func (v *Set) awaitStep() {
	v.mu.Lock()
	defer v.mu.Unlock()
}

// pump copies one stream of a service into its log.
type pump struct {
	stream string
	log    *serviceLog
	from   *os.File
	over   <-chan struct{} // closed when the process has ended
	gone   <-chan struct{} // closed when the box has
}

// run copies until the end of the stream. It calls read when the log has all output from before the end of the process. Children of the
// service that left its process group may write until the box ends.
func (p pump) run(read func()) {
	defer p.from.Close()
	var lines splitter
	defer read()
	defer func() { p.log.addOutput(p.stream, lines.flushLine()) }()
	buf := make([]byte, program.ReadChunk)
	settled := false
	logged := program.NewPace(program.LoggedRate)
	for {
		n, err := p.from.Read(buf)
		p.log.addOutput(p.stream, lines.splitLines(buf[:n]))
		logged.Take(n, p.gone)
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !late || late && isClosed(p.gone) {
			return
		}
		if !settled && isClosed(p.over) {
			program.ReadRest(p.from, buf, func(data []byte) { p.log.addOutput(p.stream, lines.splitLines(data)) })
			settled = true
			late = true
		}
		if late {
			p.log.addOutput(p.stream, lines.flushLine())
		}
		if settled {
			read()
		}
		p.armDeadline(len(lines.rest) > 0, settled)
	}
}

// armDeadline makes the next read end early if the last line is not finished, or if the process or its box has ended. The
// goroutine that notices the end of the process sets the deadline again.
func (p pump) armDeadline(unfinished, settled bool) {
	deadline := time.Time{}
	if unfinished || isClosed(p.gone) {
		deadline = time.Now().Add(lineWait)
	}
	_ = p.from.SetReadDeadline(deadline)
	switch {
	case !settled && isClosed(p.over):
		_ = p.from.SetReadDeadline(time.Now())
	case isClosed(p.gone):
		_ = p.from.SetReadDeadline(time.Now().Add(lineWait))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
