// Package contract is the contract of skills (DESIGN 12-14) as checks that drive any executable from outside: a built-in
// skill, a shell script, a program in another language. Checks is the list; package skilltest runs it as Go tests, and
// "spritekit skills test" as a command.
//
// Every check makes a workspace of its own, so neither the order of checks nor their leftovers matter. A promise
// that a target does not make is skipped and reported.
package contract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// T receives the findings of a check; *testing.T is one. Fatalf and Skip do not return.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(reason ...any)
	TempDir() string
}

// Check is one promise of the contract.
type Check struct {
	Name string
	Run  func(T, Target)
}

// Checks lists the promises, in the order in which a reader would want to know of them.
func Checks() []Check {
	return []Check{
		{"result is the last line and fits the exit code", checkResult},
		{"result holds what the manifest promises", checkOutputs},
		{"outbox holds the events of stdout", checkOutbox},
		{"same call id is done once", checkReplay},
		{"same call id with other input is refused", checkReuse},
		{"unknown key is refused with its pointer", checkUnknownKey},
		{"malformed stdin is refused", checkMalformed},
		{"empty stdin is an empty object", checkEmpty},
		{"missing permission is named", checkPermissions},
		{"SIGTERM cancels", checkSignal},
	}
}

// Target is the executable under test.
type Target struct {
	Exe      string                 // path of the executable
	Args     []string               // arguments before stdin, if it needs any
	Skill    string                 // name in its result line
	Manifest *manifests.Skill       // its manifest, if it has one
	Input    string                 // an input that succeeds in a prepared workspace, or pauses
	Env      []string               // in addition to HOME and the variables of the contract
	Prepare  func(dir string) error // makes the workspace fit for Input; may be nil
	Reads    bool                   // a read skill: it does the work again under the same call id
	// Permissions are those without which Input is refused; none means that the check is skipped.
	Permissions []string
	// Slow is an input that keeps the skill busy until it gets SIGTERM once it emitted its first event, ""
	// to skip the check.
	Slow string
	// Timeout ends a call that hangs; default 30 s.
	Timeout time.Duration
	// Unfit says why the target cannot succeed here, "" when it can. Checks that make a call are skipped with it.
	Unfit string
}

// Outcome is the observed outcome of one call.
type Outcome struct {
	Exit    int
	Stdout  string
	Stderr  string
	Events  []protocol.Event
	Result  protocol.Result
	HasLast bool // the last line that is no event is a result
}

// lastLine is the last line of stdout.
func (o Outcome) lastLine() string {
	text := strings.TrimSpace(o.Stdout)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// place is a fresh workspace for one check.
type place struct {
	t      T
	target Target
	dir    string
}

func newPlace(t T, target Target) place {
	t.Helper()
	if target.Unfit != "" {
		t.Skip(target.Unfit)
	}
	p := place{t: t, target: target, dir: t.TempDir()}
	if target.Prepare != nil {
		if err := target.Prepare(p.dir); err != nil {
			t.Fatalf("prepare the workspace: %v", err)
		}
	}
	return p
}

// newCommand prepares a call; later variables win.
func (p place) newCommand(ctx context.Context, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.target.Exe, p.target.Args...)
	cmd.Dir = p.dir
	cmd.Env = slices.Concat([]string{
		"HOME=" + p.dir,
		"LATTICE_WORKSPACE=" + p.dir, "LATTICE_SOCKET=", "LATTICE_PERMISSIONS=*",
		"LATTICE_SPRITE_ID=sprite-1", "LATTICE_WORK_ITEM_ID=item-1", "LATTICE_RUN_ID=run-1", "LATTICE_CALL_ID=call-1",
	}, p.target.Env, env)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (p place) callTimeout() time.Duration { return cmp.Or(p.target.Timeout, 30*time.Second) }

func (p place) runCall(input string, env ...string) Outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.callTimeout())
	defer cancel()
	cmd := p.newCommand(ctx, env...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		p.t.Fatalf("run %s: %v (stderr %s)", p.target.Exe, errors.Join(err, ctx.Err()), stderr.String())
	}
	return p.newOutcome(cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
}

// newOutcome reads stdout as the orchestrator would.
func (p place) newOutcome(exit int, stdout, stderr string) Outcome {
	p.t.Helper()
	o := Outcome{Exit: exit, Stdout: stdout, Stderr: stderr}
	scanner := protocol.NewScanner(strings.NewReader(stdout))
	for {
		r, err := scanner.Next()
		if err == io.EOF {
			return o
		}
		if err != nil {
			p.t.Fatalf("read stdout: %v", err)
		}
		switch r.Kind {
		case protocol.KindEvent:
			if len(r.Problems) > 0 {
				p.t.Errorf("event %s breaks rules: %v", r.Event.Raw, r.Problems)
			}
			o.Events = append(o.Events, r.Event)
		case protocol.KindOutput:
			o.Result, o.HasLast = protocol.DecodeResult([]byte(r.Text))
		case protocol.KindWarning:
			p.t.Errorf("stdout line %d: %s %s", r.Line, r.Code, r.Detail)
		}
	}
}

// checkRefused checks a call that must not have started.
func (p place) checkRefused(what string, o Outcome, exit int, code string) {
	p.t.Helper()
	if o.Exit != exit || !o.HasLast || o.Result.OK || o.Result.Error.Code != code {
		p.t.Errorf("%s: exit %d, stdout %s; want exit %d, and a result with the error code %s", what, o.Exit, shortenText(o.Stdout), exit, code)
	}
}

// shortenText returns the beginning of an output, quoted.
func shortenText(text string) string {
	const most = 300 // bytes
	if len(text) > most {
		return fmt.Sprintf("%q… (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// readOutbox reads the events that the workspace's outbox holds, without the records of results.
func (p place) readOutbox() (events []protocol.Event) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, protocol.OutboxFile))
	if err != nil {
		p.t.Fatalf("there is no %s, to which each event is appended before it is printed: %v", protocol.OutboxFile, errors.Unwrap(err))
	}
	scanner := protocol.NewOutboxScanner(bytes.NewReader(data))
	for {
		r, err := scanner.Next()
		if err == io.EOF {
			return events
		}
		if err != nil || r.Kind != protocol.KindEvent || len(r.Problems) > 0 {
			p.t.Fatalf("outbox record %+v: %v", r, err)
		}
		if payload, err := r.Event.Open(); err == nil {
			if info, ok := payload.(protocol.Info); ok && info.Kind == "result" {
				continue
			}
		}
		events = append(events, r.Event)
	}
}

// terminateGroup sends SIGTERM; a process that is gone already is no error here.
func terminateGroup(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
