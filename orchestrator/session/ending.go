package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const (
	// stopTimeout bounds the ending of a process: a signal, its grace on the host, and a margin.
	stopTimeout = 15 * time.Second
	// maxAttach is how often a process whose stream breaks again and again is followed before it is stopped.
	maxAttach = 8
)

// process describes the process of a call whose stream was lost.
type process struct {
	id     string // of its session, "" when that was never named
	heard  bool   // it said something, so its input had arrived
	shared bool   // it may be one that serves calls
}

// found is a process that runs.
type found struct {
	id     string
	shared bool
}

// listProcesses lists the processes of a call's skill in its sprite, except those of other calls in progress. A sprite belongs
// to one run: they are the call's own, no matter which connection started them, or left over from earlier calls.
func (s *Session) listProcesses(ctx context.Context, c lattice.Call, known process) ([]found, error) {
	leave, err := s.registry.lockProcesses(ctx, c.Sprite)
	if err != nil {
		return nil, err
	}
	all, err := s.host.Sessions(ctx, c.Sprite)
	leave()
	if err != nil {
		return nil, asRefusal(fmt.Errorf("look for %s in sprite %s: %w", c.Skill, c.Sprite, err), "the sprite was removed")
	}
	var out []found
	for _, p := range all {
		is := found{p.ID, isShared(p.Command)}
		if !p.TTY && !s.registry.belongsToOther(p.ID, c.ID) && (startedAs(p.Command, c.Skill) || p.ID == known.id || known.shared && is.shared) {
			out = append(out, is)
		}
	}
	return out, nil
}

// startedAs reports whether a command line is that of a skill; see skillCommand.
func startedAs(command, skill string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && path.Base(words[0]) == skill || len(words) > 1 && path.Base(words[0]) == "spritekit" && words[1] == skill
}

// stopProcess ends the process of an abandoned call: closing its stream alone would leave it running. It works when ctx has
// ended, too. A host that cannot be asked ends the process itself, later.
func (s *Session) stopProcess(ctx context.Context, c lattice.Call, known process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	all, err := s.listProcesses(ctx, c, known)
	for _, p := range all {
		err = errors.Join(err, s.killProcess(ctx, c, p.id))
	}
	if err != nil {
		s.log.Warn().Str("run", c.RunID).Str("call", c.ID).Err(err).Msg("stop a skill")
	}
}

func (s *Session) killProcess(ctx context.Context, c lattice.Call, id string) error {
	if err := s.host.Kill(ctx, c.Sprite, id, "TERM"); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		return fmt.Errorf("stop %s in sprite %s: %w", c.Skill, c.Sprite, err)
	}
	return nil
}

// isAdoptable judges the result line of a process that was followed after a cut. A failure may be the cut's own doing; and
// of a resumed call, waiting may be the old word of its first half.
func isAdoptable(c lattice.Call, res *protocol.Result) bool {
	switch {
	case res == nil:
		return false
	case !res.OK:
		return c.Class == manifests.ClassWorld
	}
	return c.Resume == nil || res.Waiting == nil
}

// followProcess attaches to a process until it ends: its recent output comes again, then its further output. Its stdin stays
// open: an end would make half an input look whole. Only a shared exec, which takes whole lines, is told the end, so that
// it ends after the call; the exit code is then the call's own.
func (s *Session) followProcess(ctx context.Context, c lattice.Call, seen *observer, p found) (exit int, err error) {
	pipe, open := io.Pipe()
	defer open.CloseWithError(io.ErrClosedPipe)
	var stdin io.Reader = pipe
	if p.shared {
		stdin = nil
	}
	output, stderr := s.output(c.RunID, c.Node), s.output(c.RunID, c.Node)
	defer flushOutput(output, stderr)
	fmt.Fprintf(output, "%s: the connection was lost; what it said lately comes again\n", c.Skill)
	seen.rereadStream(s.outboxCursor(c.Sprite).foreign)
	stdout, feed := io.Pipe()
	var group errgroup.Group
	group.Go(func() (err error) {
		exit, err = s.host.Attach(ctx, c.Sprite, p.id, sprites.Exec{Stdin: stdin, Stdout: feed, Stderr: stderr})
		feed.CloseWithError(io.EOF)
		return err
	})
	if !p.shared {
		seen.readStdout(stdout, output, func() {})
		return exit, group.Wait()
	}
	past := readReplay(c, seen, output, stderr, stdout)
	if err := group.Wait(); err != nil || past.exit == refused {
		return 0, errors.Join(err, errNotBegun)
	}
	return past.exit, nil
}

// readReplay reads the recent output of a shared exec and keeps the lines about one call. The token of the call may be lost
// with an earlier process of ours, so these lines are trusted no more than the outbox.
func readReplay(c lattice.Call, seen *observer, output, stderr io.Writer, stdout *io.PipeReader) *pendingCall {
	p := &pendingCall{call: c, seen: seen, output: output, stderr: stderr, stays: make(chan struct{}), exit: refused}
	scanner := protocol.NewScanner(stdout)
	var rec protocol.Record
	for {
		if err := scanner.Read(&rec); err != nil {
			stdout.CloseWithError(err)
			return p
		}
		if rec.Kind == protocol.KindEvent && rec.Event.CallID == c.ID {
			seen.takeEvent(rec.Event, rec.Problems)
		}
		if rec.Kind != protocol.KindOutput {
			continue
		}
		line, ok := protocol.DecodeSessionLine(rec.Bytes)
		switch {
		case ok && line.Result != nil && line.Result.CallID == c.ID:
			p.settleResult(line.Result)
		case ok && line.Output != nil && line.Output.CallID == c.ID:
			p.takeOutput(*line.Output)
		}
	}
}
