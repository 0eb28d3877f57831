package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Call runs one attempt at a skill. Every event is handed to event before Call returns.
func (s *Session) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	leased, err := s.leased(ctx, c)
	if err != nil {
		return lattice.Outcome{}, fmt.Errorf("secrets of the call: %w", err)
	}
	known := s.known(c.RunID)
	seen := s.newObserver(c, redactEvents(known, event))
	output := s.output(c.RunID, c.Node)
	defer flushOutput(output)
	defer seen.reportDropped(output)
	out, err := s.makeAttempt(ctx, c, leased, seen)
	if err == nil && out.Kind == lattice.Finished {
		out.Asked = seen.question
	}
	if err == nil {
		out = redactOutcome(known, c, out)
	}
	return out, err
}

func (s *Session) makeAttempt(ctx context.Context, c lattice.Call, leased []string, seen *observer) (lattice.Outcome, error) {
	if c.Uncertain {
		s.forgetOutbox(c.Sprite) // the call's result may lie before the cursor
		out, found, err := s.settleLost(ctx, c, seen, process{heard: true, shared: true})
		if found || err != nil {
			return out, err
		}
		if c.Class != manifests.ClassRead && c.Class != manifests.ClassIdempotent {
			return lattice.Outcome{Kind: lattice.Lost, Detail: "the orchestrator stopped while " + c.Skill + " ran, and the sprite holds no result of it"}, nil
		}
	}
	if c.Resume != nil {
		data, err := json.Marshal(c.Resume)
		if err != nil {
			return lattice.Outcome{}, fmt.Errorf("encode resume.json: %w", err)
		}
		if err := s.host.WriteFile(ctx, c.Sprite, resumeFile, bytes.NewReader(data), 0o600); err != nil {
			return lattice.Outcome{}, asRefusal(fmt.Errorf("write resume.json to sprite %s: %w", c.Sprite, err), "the sprite was removed")
		}
	}
	if err := s.Equip(ctx, c.Sprite); err != nil {
		return lattice.Outcome{}, asRefusal(err, "the sprite was removed")
	}
	seen.reset()
	exit, err := s.performCall(ctx, c, leased, seen)
	return s.concludeCall(ctx, c, seen, exit, err)
}

// performCall makes the call in the sprite's shared exec, or in a process of its own.
func (s *Session) performCall(ctx context.Context, c lattice.Call, leased []string, seen *observer) (int, error) {
	if len(leased) == 0 && s.canShare(c) {
		exit, err := s.openShared(c).callSkill(ctx, c, seen)
		if !errors.Is(err, errNotBegun) {
			return exit, err
		}
	}
	seen.reset()
	return s.execSkill(ctx, c, leased, seen)
}

// recoverOutcome looks for the outcome of a call that was dispatched before: its result in the outbox, and nothing else.
func (s *Session) recoverOutcome(ctx context.Context, c lattice.Call, seen *observer) (lattice.Outcome, bool, error) {
	if err := s.reconcileOutbox(ctx, c, seen); err != nil {
		return lattice.Outcome{}, false, err
	}
	if c.Class == manifests.ClassRead { // the outbox holds a digest of its result only; it runs again
		return lattice.Outcome{}, false, nil
	}
	// A failure recorded while the stream was lost may be caused by the cut itself (a checkpoint that was never taken, a signal).
	// Where the call can be done again it is; only outside effects make the sprite's word the best that can be had.
	redo := seen.recorded != nil && !seen.recorded.OK && c.Class != manifests.ClassWorld
	if seen.recorded == nil || redo || (c.Resume != nil && seen.recorded.Waiting != nil) {
		return lattice.Outcome{}, false, nil
	}
	out, err := s.judgeResult(ctx, c, seen, *seen.recorded, exitOf(*seen.recorded))
	return out, err == nil, err
}

// execSkill runs the skill and feeds its stdout to seen. The error is that of Exec, errTimeout or errOverstayed. A process
// that it gives up is stopped.
func (s *Session) execSkill(parent context.Context, c lattice.Call, leased []string, seen *observer) (int, error) {
	ctx, cancel := withDeadline(parent, c)
	defer cancel()
	named, ended, err := s.registry.registerProcess(parent, c.Sprite, c.ID)
	if err != nil {
		return 0, err
	}
	defer ended()
	stdout, feed := io.Pipe()
	output, stderr := s.output(c.RunID, c.Node), s.output(c.RunID, c.Node)
	defer flushOutput(output, stderr)
	var exit int
	var group errgroup.Group
	group.Go(func() (err error) {
		exit, err = s.host.Exec(ctx, c.Sprite, sprites.Exec{
			Cmd:    skillCommand(c.Skill),
			Env:    append(s.callEnv(c), leased...),
			Dir:    workspace,
			Stdin:  bytes.NewReader(c.Input),
			Stdout: feed,
			Stderr: stderr,
			// The skill's own timeout ends it; the grace covers a cut connection.
			MaxRunAfterDisconnect: disconnectGrace(c),
			OnSession:             named,
		})
		feed.CloseWithError(io.EOF)
		return err
	})
	var grace *time.Timer
	seen.readStdout(stdout, output, func() {
		if seen.waiting != nil && grace == nil {
			grace = time.AfterFunc(s.grace, cancel)
		}
	})
	err = group.Wait()
	ended() // the list that stop needs must not wait for a process that was never named
	overstayed := grace != nil && !grace.Stop()
	if err == nil || ctx.Err() == nil {
		return exit, err
	}
	s.stopProcess(ctx, c, process{})
	switch {
	case parent.Err() != nil:
		return exit, parent.Err()
	case overstayed:
		return protocol.ExitWaiting, errOverstayed
	}
	return protocol.ExitTimeout, errTimeout
}

// skillCommand returns the command that runs a skill. A drop-in skill may be a folder, which spritekit opens.
func skillCommand(skill string) []string {
	if _, ours := manifests.Lookup(skill); ours || !manifests.ValidName(skill) {
		return []string{"/skills/" + skill}
	}
	return []string{"/skills/spritekit", skill}
}

var (
	errTimeout    = errors.New("the call's timeout ran out")
	errOverstayed = errors.New("the skill went on after WAITING")
)

// concludeCall converts the end of an exec to an outcome.
func (s *Session) concludeCall(ctx context.Context, c lattice.Call, seen *observer, exit int, err error) (lattice.Outcome, error) {
	var lost *sprites.LostError
	var refused *sprites.APIError
	switch {
	case ctx.Err() != nil:
		return lattice.Outcome{}, ctx.Err() // driving stops; the call stays pending
	case errors.Is(err, errTimeout):
		if err := s.reconcileOutbox(ctx, c, seen); err != nil {
			return lattice.Outcome{}, err
		}
		return failedOutcome(c, expr.FailTimeout, protocol.ExitTimeout, "timeout", fmt.Sprintf("%s did not end within %gs", c.Skill, c.TimeoutS)), nil
	case errors.Is(err, errOverstayed):
		// Its WAITING was its last word, whether a result line followed or not.
		if seen.result == nil || seen.result.Waiting == nil {
			seen.result = &protocol.Result{OK: true, Skill: c.Skill, Waiting: seen.waiting}
		}
	case errors.As(err, &lost):
		out, found, settleErr := s.settleLost(ctx, c, seen, process{id: lost.Session, heard: seen.counted > 0, shared: seen.inShared})
		if found || settleErr != nil {
			return out, settleErr
		}
		return lattice.Outcome{Kind: lattice.Lost, Detail: err.Error()}, nil
	case errors.Is(err, sprites.ErrNotFound):
		return lattice.Outcome{}, asRefusal(fmt.Errorf("run %s in sprite %s: %w", c.Skill, c.Sprite, err), "the sprite was removed")
	case errors.As(err, &refused) && neverRuns(refused.Status):
		return failedOutcome(c, expr.FailToolUnavailable, protocol.ExitUnsupported, "exec_refused", fmt.Sprintf("run %s in sprite %s: %v", c.Skill, c.Sprite, err)), nil
	case err != nil:
		return lattice.Outcome{}, fmt.Errorf("run %s in sprite %s: %w", c.Skill, c.Sprite, err)
	}
	return s.judgeStream(ctx, c, seen, exit)
}

// judgeStream converts a stream that was read to its end to an outcome.
func (s *Session) judgeStream(ctx context.Context, c lattice.Call, seen *observer, exit int) (lattice.Outcome, error) {
	// A complete stream of a skill that runs no other programs needs no second look. Events that other programs wrote into
	// the outbox during a call are found here.
	alone := s.isCovered(c, seen)
	if seen.result == nil || seen.counted < seen.result.Events || c.Class != manifests.ClassRead && !alone {
		if err := s.reconcileOutbox(ctx, c, seen); err != nil {
			return lattice.Outcome{}, err
		}
	}
	if cut, ok := endedBySignal(seen, exit); ok {
		// As if its stream had been lost: its result may be in the outbox, or else the rules of its class decide.
		out, found, err := s.recoverOutcome(ctx, c, seen)
		if found || err != nil {
			return out, err
		}
		return lattice.Outcome{Kind: lattice.Lost, Detail: fmt.Sprintf("its process was ended by signal %d (%v) before it had a result", int(cut), cut)}, nil
	}
	if seen.result == nil && seen.recorded != nil && isEndOf(*seen.recorded, exit) {
		return s.judgeUnseen(ctx, c, seen, exit)
	}
	if seen.result == nil {
		// A skill that is not ours is looked for by spritekit, which exits with 3 where there is none.
		sought := skillCommand(c.Skill)[0] == sharedCommand[0] && exit == protocol.ExitNotFound && seen.counted == 0
		if exit == 126 || exit == 127 || sought {
			s.unequip(c.Sprite) // it may be another sprite that was made under the same name
			return failedOutcome(c, expr.FailToolUnavailable, exit, "skill_missing", fmt.Sprintf("sprite %s cannot run the skill %s: the skill, or a program that it starts, is not there", c.Sprite, c.Skill)), nil
		}
		if seen.long {
			return failedOutcome(c, expr.FailTool, exit, protocol.CodeResultTooLong, fmt.Sprintf("the last line of %s's stdout is longer than %d bytes; write the bulk to a file of the workspace and name it in the result", c.Skill, protocol.MaxLine)), nil
		}
		return failedOutcome(c, expr.FailTool, exit, protocol.CodeNoResult, fmt.Sprintf("%s ended with exit code %d and no result line", c.Skill, exit)), nil
	}
	if seen.late {
		seen.result.Warnings = append(seen.result.Warnings, protocol.OutputAfterResult())
	}
	return s.judgeResult(ctx, c, seen, *seen.result, exit)
}

// judgeUnseen returns the outcome of a call whose result line did not arrive although its connection held. The outbox has the
// result, or of a call of class read its digest only, so that the call is repeated.
func (s *Session) judgeUnseen(ctx context.Context, c lattice.Call, seen *observer, exit int) (lattice.Outcome, error) {
	if c.Class == manifests.ClassRead {
		return lattice.Outcome{Kind: lattice.Lost, Detail: "its result line did not arrive"}, nil
	}
	return s.judgeResult(ctx, c, seen, *seen.recorded, exit)
}

// isEndOf reports whether a process that recorded res ends with exit.
func isEndOf(res protocol.Result, exit int) bool {
	return exit == exitOf(res) || !res.OK && exit != protocol.ExitOK && exit != protocol.ExitWaiting
}

// endedBySignal reports whether a signal ended the process before it left a result, and returns the signal.
func endedBySignal(seen *observer, exit int) (syscall.Signal, bool) {
	silent := seen.result == nil || seen.result.Error != nil && seen.result.Error.Code == protocol.CodeNoResult
	return syscall.Signal(exit - protocol.ExitSignal), silent && !seen.long && exit > protocol.ExitSignal && exit <= protocol.ExitSignal+64
}

// neverRuns tells a host's refusal of this very request from one that time, a person or a token can change.
func neverRuns(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented:
		return true
	}
	return false
}

// judgeResult converts a result and its exit code to an outcome: a non-zero exit code fails the step in any case.
func (s *Session) judgeResult(ctx context.Context, c lattice.Call, seen *observer, res protocol.Result, exit int) (lattice.Outcome, error) {
	s.inlineSpilled(ctx, c, &res)
	switch {
	case res.OK && res.Waiting != nil && exit == protocol.ExitWaiting && seen.waiting != nil:
		return s.acceptWaiting(ctx, c, seen, res)
	case res.OK && res.Waiting == nil && exit == protocol.ExitOK:
		return lattice.Outcome{Kind: lattice.Finished, Result: res}, nil
	case !res.OK && exit != protocol.ExitOK && res.Error != nil:
		return lattice.Outcome{Kind: lattice.Finished, Result: res, Exit: exit, Failure: failureKind(exit)}, nil
	}
	said := fmt.Sprintf("ok:%t", res.OK)
	switch {
	case res.Waiting != nil && seen.waiting == nil:
		said = "that it waits, without a WAITING event,"
	case res.Waiting != nil:
		said = "that it waits"
	}
	return failedOutcome(c, expr.FailTool, exit, "exit_mismatch", fmt.Sprintf("%s said %s and ended with exit code %d", c.Skill, said, exit)), nil
}

// acceptWaiting accepts WAITING only with a checkpoint that exists. If the sprite could not take one, acceptWaiting takes it.
func (s *Session) acceptWaiting(ctx context.Context, c lattice.Call, seen *observer, res protocol.Result) (lattice.Outcome, error) {
	known, err := s.host.Checkpoints(ctx, c.Sprite)
	if err != nil {
		return lattice.Outcome{}, asRefusal(fmt.Errorf("list checkpoints of sprite %s: %w", c.Sprite, err), "the sprite was removed")
	}
	waiting := *res.Waiting
	found := false
	for _, cp := range known {
		found = found || cp.ID == waiting.CheckpointID && cp.ID != sprites.Current
	}
	if !found {
		cp, err := s.takeCheckpoint(ctx, c.Sprite, "waiting: "+summarize(waiting.Reason), s.host.CheckpointDurable)
		if err != nil {
			return lattice.Outcome{}, asRefusal(fmt.Errorf("checkpoint sprite %s: %w", c.Sprite, err), "the sprite was removed")
		}
		waiting.CheckpointID = cp.ID
	}
	res.Waiting = &waiting
	return lattice.Outcome{Kind: lattice.Suspended, Result: res, Exit: protocol.ExitWaiting, Request: seen.request}, nil
}

// summarize returns the beginning of a text of a sprite on one line, for comments, which hosts bound.
func summarize(text string) string {
	const most = 200
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}

// failedOutcome returns the outcome of a call that ended without a usable result.
func failedOutcome(c lattice.Call, kind string, exit int, code, message string) lattice.Outcome {
	return lattice.Outcome{Kind: lattice.Finished, Exit: exit, Failure: kind, Result: protocol.Result{
		Skill: c.Skill, Error: &protocol.Fault{Code: code, Message: message}}}
}

// failureKind maps a skill's exit code to the failure kinds that retry and catch know.
func failureKind(exit int) string {
	switch exit {
	case protocol.ExitTimeout:
		return expr.FailTimeout
	case protocol.ExitDenied:
		return expr.FailToolDenied
	case protocol.ExitUnsupported:
		return expr.FailToolUnavailable
	}
	return expr.FailTool
}

// exitOf is the exit code of a call that is known by its recorded result only.
func exitOf(res protocol.Result) int {
	switch {
	case res.Waiting != nil:
		return protocol.ExitWaiting
	case res.OK:
		return protocol.ExitOK
	}
	return protocol.ExitFailed
}

// redactOutcome returns an outcome without secrets.
func redactOutcome(known *redact.Secrets, c lattice.Call, out lattice.Outcome) lattice.Outcome {
	if !known.Any() {
		return out
	}
	raw, err := json.Marshal(out)
	if err == nil && bytes.Equal(known.JSON(raw), raw) {
		return out
	}
	var redacted lattice.Outcome
	if err != nil || json.Unmarshal(known.JSON(raw), &redacted) != nil {
		return failedOutcome(c, expr.FailTool, protocol.ExitFailed, protocol.CodeNoResult, c.Skill+" ended with a result that holds a secret in the place of a number")
	}
	return redacted
}

// settleLost finds out the outcome of a call whose stream was lost: it looks for the process and follows it to its end, then
// reads the outbox. When it returns, no process of the call runs any more. A call that can be
// repeated is stopped instead of followed, and so is a process that has printed nothing: it may wait for an input that was
// lost on the way.
func (s *Session) settleLost(ctx context.Context, c lattice.Call, seen *observer, known process) (lattice.Outcome, bool, error) {
	bounded, cancel := withDeadline(ctx, c)
	defer cancel()
	for attempt := 1; ; attempt++ {
		all, err := s.listProcesses(ctx, c, known)
		if err != nil {
			return lattice.Outcome{}, false, err
		}
		if len(all) == 0 {
			return s.recoverOutcome(ctx, c, seen)
		}
		for _, p := range all {
			if c.Class == manifests.ClassRead || !known.heard && !p.shared || attempt > maxAttach || bounded.Err() != nil {
				if err := s.killProcess(ctx, c, p.id); err != nil {
					return lattice.Outcome{}, false, err
				}
				continue
			}
			exit, err := s.followProcess(bounded, c, seen, p)
			if ctx.Err() != nil {
				return lattice.Outcome{}, false, ctx.Err()
			}
			if err == nil && isAdoptable(c, seen.result) {
				out, err := s.judgeStream(ctx, c, seen, exit)
				return out, err == nil, err
			}
			// Whether it ended, was gone or was lost again, the next listing tells.
		}
	}
}
