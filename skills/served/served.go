// Package served makes a skill of a program in any language: the runtime implements the contract (strict input,
// permissions, the call journal, phases, outbox, result) and the program does the work. Func is the place to start.
//
//	the checked input ─► stdin, and INPUT_<NAME> in the environment
//	the output of "spritekit emit", INFO and ARTIFACT lines ─► events of the call
//	the last line, a JSON object ─► the result's data, checked against the manifest's outputs
//	stderr, other lines ─► for people; the exit code ─► as for every skill (DESIGN 13)
//
// Output of the program is untrusted: only events are passed on to the skill's stdout.
package served

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/relay"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	stopGrace = 5 * time.Second // after SIGINT, and again after SIGTERM
	maxTail   = 4 << 10         // bytes of stderr that a failure's message may quote
	maxEvents = 10_000          // of one call
	// The system takes 128 KiB of one variable, and not much more of all together.
	maxVariable  = 64 << 10
	maxVariables = 512 << 10
)

// Func serves a program. argv[0] is a path, absolute or relative to the workspace, or a name on the call's PATH.
func Func(r *proc.Reaper, argv []string) skill.Func {
	return func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		if limit := c.Manifest.TimeoutS; limit > 0 {
			var cancel context.CancelFunc
			late := fault.Timeout("timeout", "the program did not end within the %g s of timeout_s in its skill.json", limit).WithHint("raise timeout_s there, or give it less to do")
			ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(limit*float64(time.Second)), late)
			defer cancel()
		}
		env, err := buildEnv(c)
		if err != nil {
			return skill.Result{}, err
		}
		resolved, err := proc.Resolve(argv, env)
		if err != nil {
			return skill.Result{}, err
		}
		p := &program{call: c}
		p.lines = proc.Lines{Max: protocol.MaxLine, Each: p.handleLine}
		tail := &proc.Tail{Limit: maxTail}
		var exit proc.Exit
		waits, err := relay.Attend(ctx, c, func(ctx context.Context) (err error) {
			exit, err = r.Run(ctx, proc.Spec{
				Argv: resolved, Dir: c.Root.Dir(), Env: env, Stdin: string(c.Input), Stdout: &p.lines, Stderr: io.MultiWriter(tail, c.Stderr), Tree: true, Grace: stopGrace,
			})
			return err
		})
		if err != nil {
			return skill.Result{}, fmt.Errorf("run the program: %w", err)
		}
		if ctx.Err() != nil {
			return skill.Result{}, context.Cause(ctx)
		}
		if waits {
			return skill.Result{}, nil
		}
		p.lines.Flush()
		if p.err != nil {
			return skill.Result{}, p.err
		}
		return p.makeResult(ctx, exit, tail.Bytes())
	}
}

// buildEnv returns the environment of a child of the call with the inputs by name: text as it is, other values as JSON.
// Values that do not fit into a variable are only on stdin, which has all inputs. A program that continues after WAITING finds the answers in
// ANSWERS, a JSON object.
func buildEnv(c *skill.Call) ([]string, error) {
	var inputs map[string]json.RawMessage
	if err := json.Unmarshal(c.Input, &inputs); err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	env := append(slices.Clone(c.Env), "LATTICE_PARENT_CALL_ID="+c.ID)
	for _, v := range relay.Identity(c, relay.Parent(c)) {
		env = append(env, v[0]+"="+v[1])
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		var text string
		if raw := inputs[name]; json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if total += len(text); len(text) > maxVariable || total > maxVariables || strings.ContainsRune(name+text, 0) || strings.Contains(name, "=") {
			continue
		}
		env = append(env, "INPUT_"+strings.ToUpper(name)+"="+text)
	}
	if c.Resume != nil && !relay.IsAnswered(c) {
		env = append(env, "ANSWERS="+string(c.Resume.Inputs))
	}
	return env, nil
}

// program holds the output of one run. It is written to by one goroutine, and read after that has ended.
type program struct {
	call  *skill.Call
	lines proc.Lines
	last  string // the last line that is no event
	long  bool   // it was longer than a reader takes
	early bool   // a line before it could have been the result
	shown int
	err   error // the first event that could not be written
}

func (p *program) handleLine(text string) {
	body, ok := strings.CutPrefix(text, protocol.Prefix)
	if !ok {
		p.printLine(p.last)
		p.early = p.early || parseObject(p.last) != nil
		p.last, p.long = text, p.lines.Cut
		return
	}
	e, problems, ok := protocol.Decode([]byte(body))
	switch {
	case !ok || len(problems) > 0 || e.Legacy:
		p.call.Warn("event_refused", "the program printed an event that breaks a rule; spritekit emit says which")
	case p.shown == maxEvents:
		p.call.Warn("events_not_shown", fmt.Sprintf("the program emitted more than %d events; the rest is only in %s", maxEvents, protocol.OutboxFile))
	case p.shown > maxEvents:
	case p.call.Nests(e): // it is relayed from the outbox
	case e.EventID != "": // recorded by spritekit emit, or by a skill that the program called
		p.keepError(p.call.Relay(e))
	default:
		p.emitEvent(e)
	}
	p.shown++
}

// emitEvent stamps and records an event that the program printed itself, if it is one that asks for nothing.
func (p *program) emitEvent(e protocol.Event) {
	payload, err := e.Open()
	if err != nil {
		p.keepError(err)
		return
	}
	switch payload := payload.(type) {
	case protocol.Info, protocol.Artifact:
		p.keepError(p.call.Emit(payload))
	default:
		p.call.Warn("event_refused", fmt.Sprintf("the program printed %s; of events without an id only INFO and ARTIFACT count", payload.EventType()))
	}
}

func (p *program) keepError(err error) {
	if p.err == nil {
		p.err = err
	}
}

// printLine shows a line that is no event to people.
func (p *program) printLine(text string) {
	if text != "" {
		fmt.Fprintln(p.call.Stderr, strings.ToValidUTF8(text, "\uFFFD"))
	}
}

// makeResult makes a result of the last line and the exit code. The line is an object of data, or a whole result as every
// skill prints it.
func (p *program) makeResult(ctx context.Context, exit proc.Exit, stderr []byte) (skill.Result, error) {
	result, whole := protocol.DecodeResult([]byte(p.last))
	if !whole {
		result.Data = parseObject(p.last)
		if result.Data == nil {
			p.printLine(p.last)
		}
	}
	none := !whole && result.Data == nil
	for _, w := range result.Warnings {
		p.call.Warn(w.Code, w.Message)
	}
	switch {
	case result.Waiting != nil && exit.Code == protocol.ExitWaiting:
		return skill.Result{}, p.call.Suspend(ctx, result.Waiting.Reason, result.Waiting.ExpectedInputs, nil)
	case exit.Signal != 0:
		return skill.Result{}, fault.Failed("killed", "the program was ended by %v", exit.Signal)
	case exit.Code != protocol.ExitOK:
		return skill.Result{}, newFailure(exit.Code, result, stderr)
	case whole && !result.OK || result.Waiting != nil:
		return skill.Result{}, fault.Failed("bad_result", "the program exited with 0 and its result says otherwise").
			WithHint("exit with the code of the result: 75 to wait, 1 to 9 for a failure")
	case none:
		if err := p.checkNoResult(); err != nil {
			return skill.Result{}, err
		}
	}
	data := map[string]json.RawMessage{}
	if len(result.Data) > 0 {
		if err := json.Unmarshal(result.Data, &data); err != nil {
			return skill.Result{}, fmt.Errorf("read the program's result: %w", err)
		}
	}
	if problems := p.call.Manifest.CheckOutput(data); len(problems) > 0 {
		lines := make([]string, len(problems))
		for i, problem := range problems {
			lines[i] = problem.Pointer + " " + problem.Message
		}
		return skill.Result{}, fault.Failed("bad_output", "the result is not what skill.json promises: %s", strings.Join(lines, "; ")).
			WithHint("print the outputs as one JSON object on the last line of stdout").WithDetails(map[string]any{"problems": problems})
	}
	if extra := listUnnamed(p.call.Manifest.Outputs, data); len(extra) > 0 {
		p.call.Warn("undeclared_output", fmt.Sprintf("skill.json names no output %s: flows cannot use it", strings.Join(extra, ", ")))
	}
	return skill.Result{Data: data}, nil
}

// checkNoResult judges a program that exited with 0 and whose last line is not a result. That is a fault where the line was too
// long or the manifest promises data, and a warning otherwise; a skill that promises no data needs no result line.
func (p *program) checkNoResult() error {
	const hint = "print the outputs as one JSON object on the last line of stdout; what is for people goes to stderr"
	if p.long {
		return fault.Failed(protocol.CodeResultTooLong, "the last line of stdout is longer than %d bytes", protocol.MaxLine).
			WithHint("write the bulk to a file of the workspace and name the file in the result")
	}
	text := "stdout has no result line"
	if p.early {
		text = "output follows the result line, which must be the last of stdout"
	} else if p.last != "" {
		text = "the last line of stdout is not a JSON object"
	}
	outputs := p.call.Manifest.Outputs
	if len(outputs) > 0 {
		return fault.Failed(protocol.CodeNoResult, "%s", text).WithHint(hint)
	}
	if outputs == nil || p.early {
		p.call.Warn(protocol.CodeNoResult, text+": the result has no data")
	}
	return nil
}

// listUnnamed lists the members of a result that its manifest does not name; a manifest without outputs allows all.
func listUnnamed(outputs []manifests.Field, data map[string]json.RawMessage) (extra []string) {
	if outputs == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if !slices.ContainsFunc(outputs, func(f manifests.Field) bool { return f.Name == name }) {
			extra = append(extra, strings.ToValidUTF8(fmt.Sprintf("%.64q", name), "\uFFFD"))
		}
	}
	return extra
}

// parseObject returns the line when it is a JSON object, nil otherwise.
func parseObject(line string) json.RawMessage {
	raw := json.RawMessage(bytes.TrimSpace([]byte(line)))
	if !bytes.HasPrefix(raw, []byte("{")) || !json.Valid(raw) {
		return nil
	}
	return raw
}

// codeOf names the exit codes of the table for programs that say no more.
func codeOf(exit int) string {
	switch exit {
	case protocol.ExitBadInput:
		return "bad_input"
	case protocol.ExitNotFound:
		return "not_found"
	case protocol.ExitDenied:
		return "permission_denied"
	case protocol.ExitNetwork:
		return "network"
	case protocol.ExitBusy:
		return "busy"
	case protocol.ExitUnsafe:
		return "unsafe"
	case protocol.ExitUnsupported:
		return "unsupported"
	case protocol.ExitLimit:
		return "limit"
	case protocol.ExitTimeout:
		return "timeout"
	}
	return "failed"
}

// newFailure is the error of a program that did not exit with 0: as its result says, else by its exit code and the last
// line that it wrote to stderr.
func newFailure(exit int, result protocol.Result, stderr []byte) error {
	e := fault.New(exit, codeOf(exit), "%s", lastLine(stderr))
	if e.Code == "failed" {
		e.Exit = protocol.ExitFailed
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the program ended with exit code %d", exit)
	}
	if f := result.Error; f != nil {
		e.Code, e.Message, e.Hint, e.Retryable = f.Code, f.Message, f.Hint, f.Retryable
		if len(f.Details) > 0 {
			e.Details = f.Details
		}
	} else if len(result.Data) > 0 {
		e.Details = result.Data
	}
	return e
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
