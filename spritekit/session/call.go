package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// call is one call on its way through a session.
type call struct {
	protocol.SessionCall
	server *server
	size   int // bytes of its line
	ctx    context.Context
	cancel context.CancelFunc
	exit   int         // set when it has ended
	over   atomic.Bool // its result is being said: from now on its id may be used again
}

// baseEnv returns the environment without the variables of a single call.
func baseEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "LATTICE_CALL_ID", "LATTICE_PARENT_CALL_ID", "LATTICE_RUN_ID", "LATTICE_WORK_ITEM_ID", "LATTICE_IDEMPOTENCY_KEY", "LATTICE_STDIN_BYTES":
			return true
		}
		return strings.HasPrefix(name, "LATTICE_INPUT_")
	})
}

// buildEnv returns the environment that a process of this call would have.
func (c *call) buildEnv() []string {
	env := slices.Clone(c.server.base)
	if c.Permissions != nil {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "LATTICE_PERMISSIONS=") })
		env = append(env, "LATTICE_PERMISSIONS="+strings.Join(*c.Permissions, ","))
	}
	for _, kv := range [...][2]string{
		{"LATTICE_CALL_ID=", c.CallID}, {"LATTICE_RUN_ID=", c.RunID}, {"LATTICE_WORK_ITEM_ID=", c.WorkItemID},
		{"LATTICE_IDEMPOTENCY_KEY=", c.IdempotencyKey},
	} {
		if kv[1] != "" {
			env = append(env, kv[0]+kv[1])
		}
	}
	if c.RunID != "" {
		env = append(env, "TRACEPARENT="+tracecontext.Parent(c.RunID, c.CallID))
	}
	return env
}

// runCall makes the call and always writes its result line.
func (c *call) runCall() {
	ctx := c.ctx
	if c.TimeoutS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(min(c.TimeoutS, 1e9)*float64(time.Second)))
		defer cancel()
	}
	stderr := &text{call: c.CallID, to: c.server.out}
	var line []byte
	out := &stdout{call: c}
	line, c.exit = c.serveCall(ctx, out, stderr)
	stderr.endText()
	switch {
	case line == nil && out.long:
		line = c.newFailure(protocol.CodeResultTooLong, fmt.Sprintf("the last line of stdout is longer than %d bytes", protocol.MaxLine),
			"write the bulk to a file of the workspace and name the file in the result")
	case line == nil:
		line = c.newFailure(protocol.CodeNoResult, fmt.Sprintf("%s ended with exit code %d and no result line", c.Skill, c.exit), "")
	}
	c.over.Store(true)
	_ = c.server.out.addLine(true, line[:len(line)-1], c.endLine()) // kept in err
}

// declineCall writes the result line of a call that was cancelled before it began.
func (c *call) declineCall() {
	c.exit = protocol.ExitCancelled
	line := c.newFailure("cancelled", c.Skill+" was cancelled before it began", "")
	_ = c.server.out.addLine(true, line[:len(line)-1], c.endLine()) // kept in err
}

// serveCall makes the call; the line is nil when there was no result.
func (c *call) serveCall(ctx context.Context, out *stdout, stderr *text) (line []byte, exit int) {
	defer func() {
		if p := recover(); p != nil { // of the runtime's own: a skill's panic is caught where the skill is called
			fmt.Fprintf(stderr, "panic: %v\n%s", p, debug.Stack())
			line, exit = c.newFailure("internal", fmt.Sprintf("%s panicked: %v", c.Skill, p), "stderr has the stack"), protocol.ExitInternal
		}
	}()
	if s, m, ok := c.server.builtIn(c.Skill); ok {
		out.ours = true
		exit = c.server.desk.Serve(ctx, s, m, skill.ParseEnv(c.buildEnv()), skill.IO{Stdin: bytes.NewReader(c.Input), Stdout: out, Stderr: stderr})
		return out.result, exit
	}
	argv, err := c.findProgram()
	if err != nil && !manifests.ValidName(c.Skill) {
		return c.newFailure(protocol.CodeSkillMissing, err.Error(), "names of skills are lower-case words joined by dots, such as fs.read"), exitNoProgram
	}
	if err != nil {
		return c.newFailure(protocol.CodeSkillMissing, err.Error(), "lattice skill ls lists what a sprite has"), protocol.ExitNotFound
	}
	env := c.buildEnv()
	exit, err = c.server.o.Run(ctx, Program{
		Argv: argv, Dir: skill.ParseEnv(env).Workspace, Env: env, Stdin: c.readInput(), Stdout: out, Stderr: stderr,
	})
	out.endOutput()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return c.newFailure(protocol.CodeSkillMissing, err.Error(), "is its program there, and executable?"), exitNotExecutable
	}
	return out.result, exit
}

// Exit codes of a shell for a program that cannot be run, or is not there.
const (
	exitNotExecutable = 126
	exitNoProgram     = 127
)

func (c *call) readInput() []byte {
	if len(c.Input) == 0 {
		return []byte("{}")
	}
	return c.Input
}

// findProgram returns the command of a third-party skill: a folder with its manifest, or an executable named after the skill.
func (c *call) findProgram() ([]string, error) {
	if !manifests.ValidName(c.Skill) {
		return nil, fmt.Errorf("%q is no name of a skill", c.Skill)
	}
	dir := filepath.Dir(c.server.o.Self)
	found, err := dropin.Load(dir, c.Skill)
	if errors.Is(err, dropin.ErrNone) {
		file := filepath.Join(dir, c.Skill)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return []string{file}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	argv := found.Command()
	if argv[0] == "spritekit" { // this executable, not the one on PATH
		argv[0] = c.server.o.Self
	}
	return argv, nil
}

// newFailure is a result line of the session's own.
func (c *call) newFailure(code, message, hint string) []byte {
	e := fault.Failed(code, "%s", strings.ToValidUTF8(message, "\uFFFD")).WithHint("%s", hint)
	line, err := skill.FailureLine(e, c.Skill, c.CallID)
	if err != nil { // of plain texts: cannot be
		line = []byte(`{"ok":false,"skill":"?","error":{"code":"internal","message":"the result cannot be written"},"call_id":"` + c.CallID + `"}`)
	}
	return line
}

// endLine returns the members that a session adds to the result line of a skill, from the comma to the closing brace.
func (c *call) endLine() []byte {
	b := strconv.AppendInt([]byte(`,"exit":`), int64(c.exit), 10)
	if c.Token != "" {
		quoted, _ := json.Marshal(c.Token) // text
		b = append(append(b, `,"token":`...), quoted...)
	}
	if from, to := c.server.desk.Own(); to > 0 {
		b = append(strconv.AppendInt(append(b, `,"outbox":{"from":`...), from, 10), `,"to":`...)
		b = append(strconv.AppendInt(b, to, 10), '}')
	}
	return append(b, '}')
}
