// Package foreign calls skills that others dropped in, for a process of ours that serves calls: it starts the skill's own
// program, which keeps the contract (DESIGN 12, 13) by itself, and watches that it does. Call is the place to start; it
// has the form of skill.Serve. (Package served is the other way round: the runtime keeps the contract, a program does
// the work.)
package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const stopGrace = 5 * time.Second // after SIGINT, and again after SIGTERM

// Call makes one call of the skill of m, whose command line is argv: input from Stdin, which is checked before the program
// sees it; the program's event lines, then one result line, to Stdout; everything else to Stderr. It returns the exit
// code. The program gets the permissions of its manifest that env grants, an id of its own where env has none, and its
// manifest's time; everything that it started is dead when Call returns. A result that contradicts the exit code, or
// has another skill's name, is refused as the orchestrator refuses it.
func Call(ctx context.Context, r *proc.Reaper, m manifests.Skill, argv []string, env skill.Env, streams skill.IO) (exit int) {
	if env.CallID == "" {
		env.CallID = skill.NewCallID(env, time.Now())
	}
	line, exit, err := runCall(ctx, r, m, argv, env, streams)
	if err != nil {
		e := skill.Fault(err)
		if line, err = skill.FailureLine(e, m.Name, env.CallID); err != nil {
			fmt.Fprintf(streams.Stderr, "%s: %v\n", m.Name, err)
			return protocol.ExitInternal
		}
		fmt.Fprintf(streams.Stderr, "%s: %s\n", m.Name, e.Message)
		exit = e.Exit
	}
	if _, err := streams.Stdout.Write(append(line, '\n')); err != nil {
		fmt.Fprintf(streams.Stderr, "%s: write result: %v\n", m.Name, err)
		return protocol.ExitInternal
	}
	return exit
}

func runCall(ctx context.Context, r *proc.Reaper, m manifests.Skill, argv []string, env skill.Env, streams skill.IO) (line []byte, exit int, err error) {
	input, err := skill.Admit(m, env, streams.Stdin)
	if err != nil {
		return nil, 0, err
	}
	root, err := workspace.OpenWithState(env.Workspace, env.State)
	if err != nil {
		return nil, 0, fault.NotFound("not_found", "there is no workspace at %s: %v", env.Workspace, err)
	}
	defer root.Close()
	if argv, err = proc.Resolve(argv, env.Child); err != nil {
		return nil, 0, err
	}
	if m.TimeoutS > 0 {
		var cancel context.CancelFunc
		late := fault.Timeout("timeout", "%s did not end within the %g s of timeout_s in its skill.json", m.Name, m.TimeoutS).WithHint("raise timeout_s there, or give it less to do")
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(min(m.TimeoutS, manifests.MaxTimeoutS)*float64(time.Second)), late)
		defer cancel()
	}
	out := &output{streams: streams}
	lines := proc.Lines{Max: protocol.MaxLine}
	lines.Each = func(text string) { out.handleLine(text, lines.Cut) }
	ended, err := r.Run(ctx, proc.Spec{
		Argv: argv, Dir: root.Dir(), Env: buildEnv(m, env), Stdin: string(input),
		Stdout: &lines, Stderr: streams.Stderr, Tree: true, Grace: stopGrace,
	})
	lines.Flush()
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, 0, fault.Unsupported("skill_missing", "%v", err).WithHint("the folder of %s lacks its program, or it may not be run", m.Name)
	case err != nil:
		return nil, 0, fmt.Errorf("call %s: %w", m.Name, err)
	case out.err != nil:
		return nil, 0, out.err
	}
	result, said := protocol.DecodeResult([]byte(out.last))
	if !said || result.Skill != m.Name {
		out.printLine(out.last)
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if out.long {
			return nil, 0, fault.Failed(protocol.CodeResultTooLong, "the last line of stdout is longer than %d bytes", protocol.MaxLine).
				WithHint("write the bulk to a file of the workspace and name the file in the result")
		}
		if ended.Signal != 0 { // by the exit code the caller can tell it from a failure
			e := fault.Failed(protocol.CodeNoResult, "%s was ended by signal %d (%v) and left no result line", m.Name, int(ended.Signal), ended.Signal)
			e.Exit = protocol.ExitSignal + int(ended.Signal)
			return nil, 0, e
		}
		return nil, 0, fault.Failed(protocol.CodeNoResult, "%s ended with exit code %d and no result line", m.Name, ended.Code).
			WithHint("the last line of its stdout must be the result; lattice skill test finds what else is amiss")
	}
	if !matchesExit(result, ended.Code) {
		return nil, 0, fault.Failed("exit_mismatch", "%s said ok:%t and ended with exit code %d", m.Name, result.OK, ended.Code)
	}
	line, err = skill.Fit(root, &result, []byte(out.last), env.MaxResult)
	return line, ended.Code, err
}

// buildEnv returns the environment of the skill: that of every child process, and the identity of the call.
func buildEnv(m manifests.Skill, env skill.Env) []string {
	var granted []string
	for _, p := range m.AllPermissions() {
		if env.Grants.Allows(p) {
			granted = append(granted, p)
		}
	}
	list := append(slices.Clone(env.Child), "LATTICE_CALL_ID="+env.CallID, "LATTICE_PERMISSIONS="+strings.Join(granted, ","))
	if env.IdempotencyKey != "" {
		list = append(list, "LATTICE_IDEMPOTENCY_KEY="+env.IdempotencyKey)
	}
	return list
}

// matchesExit reports whether a result and an exit code say the same.
func matchesExit(r protocol.Result, exit int) bool {
	switch {
	case r.Waiting != nil:
		return exit == protocol.ExitWaiting
	case r.OK:
		return exit == protocol.ExitOK
	}
	return exit != protocol.ExitOK
}

// output is the program's stdout, line by line. It is written to by one goroutine, and read after that has ended.
type output struct {
	streams skill.IO
	last    string // the last line that is no event
	long    bool   // it was longer than a reader takes
	err     error  // the first that Stdout gave
}

func (o *output) handleLine(text string, cut bool) {
	if !strings.HasPrefix(text, protocol.Prefix) {
		o.printLine(o.last)
		o.last, o.long = text, cut
		return
	}
	if _, err := io.WriteString(o.streams.Stdout, text+"\n"); err != nil && o.err == nil {
		o.err = fmt.Errorf("write event to stdout: %w", err)
	}
}

// printLine shows a line that is neither event nor result to people.
func (o *output) printLine(text string) {
	if text != "" {
		fmt.Fprintln(o.streams.Stderr, strings.ToValidUTF8(text, "\uFFFD"))
	}
}
