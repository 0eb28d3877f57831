package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/resume"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxWarnings = 100
	maxMessage  = 8 << 10 // bytes of an error message
)

// end turns the outcome of an attempt into the result line and the exit code.
func (w *attempt) end(result Result, err error) int {
	end := w.ending(w.resumed)
	if w.suspended != nil { // the call waits, whatever the skill returned
		end.id = w.suspended.id
		return w.finishCall(protocol.Result{OK: true, Waiting: w.suspended.waiting}, protocol.ExitWaiting, end)
	}
	if err != nil {
		return w.reportError(err, end)
	}
	data, err := encodeObject(result.Data)
	if err != nil {
		return w.reportError(err, end)
	}
	return w.finishCall(protocol.Result{OK: true, Data: data}, protocol.ExitOK, end)
}

// refuseCall ends a call that was not accepted.
func (r *runner) refuseCall(err error) int {
	return r.reportError(err, ending{id: r.id, class: manifests.ClassRead})
}

// failCall ends a call that did not reach its work.
func (c *accepted) failCall(err error) int { return c.reportError(err, c.ending(nil)) }

// failCall ends an attempt.
func (w *attempt) failCall(err error) int { return w.reportError(err, w.ending(w.resumed)) }

// ending is how finish records a result.
type ending struct {
	id      string
	class   manifests.Class
	journal *journal.Call // nil for a call that was not accepted
	mark    *answer       // the answer to mark as processed, nil for none
}

// ending marks the answer that was processed. That of a nested call is not marked: the marker is for the call that the
// orchestrator resumed.
func (c *accepted) ending(processed *answer) ending {
	if c.repeated {
		processed = nil
	}
	return ending{id: c.id, class: c.class, journal: c.journal, mark: processed}
}

// reportError ends a call with an error.
func (r *runner) reportError(err error, end ending) int {
	e := Fault(err)
	wire := e.Fault
	if wire.Hint == "" && e.Exit == protocol.ExitBadInput {
		wire.Hint = "spritekit " + r.skill.Name + " --help lists the inputs"
	}
	wire.Message = text.Head(wire.Message, maxMessage)
	return r.finishCall(protocol.Result{Error: &wire}, e.Exit, end)
}

// encodeObject encodes the data of a result, which must be a JSON object.
func encodeObject(data any) (json.RawMessage, error) {
	if data == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := encodeJSON(data)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	if string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("encode the result: a %T is not an object", data)
	}
	return raw, nil
}

// finishCall writes the result to outbox, journal, marker and stdout, in this order: a result that was seen is recorded.
func (r *runner) finishCall(result protocol.Result, exit int, end ending) int {
	result.Skill, result.CallID = r.skill.Name, end.id
	if r.desk != nil {
		r.desk.held.remove(r.out)
	}
	said, warnings := r.out.close()
	result.Events, result.Warnings = said+r.out.countPending(), warnings
	if len(result.Warnings) > maxWarnings {
		result.Warnings = result.Warnings[:maxWarnings]
	}
	line, err := r.recordResult(&result, exit, end)
	if err != nil {
		// The work may be done, but that is not recorded, so the call did not succeed.
		e := Fault(err)
		result = protocol.Result{Skill: result.Skill, CallID: result.CallID, Events: result.Events - r.out.countPending(), Error: &e.Fault}
		exit = e.Exit
		line, err = encodeResult(result)
	}
	if err == nil {
		err = r.out.finishLine(line)
	}
	if err != nil {
		fmt.Fprintf(r.streams.Stderr, "%s: write result: %v\n", r.skill.Name, err)
		return protocol.ExitInternal
	}
	if result.Error != nil {
		fmt.Fprintf(r.streams.Stderr, "%s: %s\n", r.skill.Name, result.Error.Message)
		if result.Error.Hint != "" {
			fmt.Fprintf(r.streams.Stderr, "hint: %s\n", result.Error.Hint)
		}
	}
	return exit
}

// recordResult writes the result to outbox, journal and marker, and returns its line.
func (r *runner) recordResult(result *protocol.Result, exit int, end ending) (line []byte, err error) {
	line, err = r.fitResult(result)
	switch {
	case r.out.log == nil:
		return line, err
	case err != nil:
		return nil, errors.Join(err, r.out.concludeCall())
	}
	if err := r.out.concludeCall(resultInfo(*result, line, end.class, exit)); err != nil {
		return nil, err
	}
	if end.class != manifests.ClassRead {
		if err := r.out.log.Sync(); err != nil {
			return nil, err
		}
	}
	if end.journal == nil || !isFinal(end.journal.Last().State, result, exit) {
		return line, nil
	}
	last := end.journal.Last()
	done := journal.Record{
		State: journal.Done, Exit: exit, PayloadSHA256: last.PayloadSHA256, Waiting: last.Waiting, Request: last.Request,
	}
	if end.class != manifests.ClassRead { // a read is done again
		done.Result = line
	}
	if err := end.journal.Append(done, false); err != nil { // no sync: adoptResult finds the synced result in the outbox
		return nil, err
	}
	if end.mark != nil {
		return line, resume.Mark(r.root, end.mark.resume, line, r.now())
	}
	return line, nil
}

// isFinal reports whether a result ends the call. A call that was cancelled, or that a full disk stopped, is left as it
// is: it counts as crashed, and the rules of its class say what comes next.
func isFinal(state journal.State, result *protocol.Result, exit int) bool {
	stopped := exit == protocol.ExitCancelled ||
		result.Error != nil && (result.Error.Code == codeNoSpace || result.Error.Code == codeQuota)
	return (state == journal.Started || state == journal.Resumed) && result.Waiting == nil && !stopped
}

// fitResult encodes a result, and moves its data to a file if the line would be too long.
func (r *runner) fitResult(result *protocol.Result) ([]byte, error) {
	line, err := encodeResult(*result)
	if err != nil {
		return nil, err
	}
	line, err = Fit(r.root, result, line, r.env.MaxResult)
	r.out.spilled = Spilled(*result)
	return line, err
}

// Spilled reports whether the data of a result, or the details of its error, were moved to a file: they are then
// {path,size,sha256}, and the result has a warning protocol.WarnSpilled.
func Spilled(r protocol.Result) bool {
	return slices.ContainsFunc(r.Warnings, func(w protocol.Warning) bool { return w.Code == protocol.WarnSpilled })
}

// ReadSpilled returns the data of a spilled result of a call in env, if it has at most limit bytes.
func ReadSpilled(env Env, r protocol.Result, limit int64) (json.RawMessage, error) {
	var ref outbox.Ref
	if err := json.Unmarshal(r.Data, &ref); err != nil {
		return nil, fmt.Errorf("read where the result of %s is: %w", r.Skill, err)
	}
	root, err := openWorkspace(env.Workspace, env.State)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(ref.Path, limit)
}

// resultInfo returns the outbox record of a result. That of a read skill has only a digest, because its results can be
// large and are never adopted: the read is done again.
func resultInfo(result protocol.Result, line []byte, class manifests.Class, exit int) protocol.Info {
	info := protocol.Info{Message: result.Skill + " ok", Kind: outbox.KindResult, Metadata: line}
	switch {
	case result.Waiting != nil:
		info.Message = result.Skill + " waits: " + result.Waiting.Reason
	case result.Error != nil:
		info.Message = result.Skill + " failed: " + result.Error.Message
		info.Metadata = withExit(line, exit)
	case class == manifests.ClassRead:
		// Names of skills and ids of calls are letters, digits and a few signs.
		info.Metadata = fmt.Appendf(nil, `{"ok":%t,"skill":"%s","call_id":"%s","events":%d,"size":%d,"sha256":"%x"}`,
			result.OK, result.Skill, result.CallID, result.Events, len(line), sha256.Sum256(line))
	}
	return info
}

// replayResult writes the recorded result again. Its events are in the outbox and are not emitted again.
func (c *accepted) replayResult() int {
	last := c.journal.Last()
	result, ok := protocol.DecodeResult(last.Result)
	if !ok || result.Skill != c.skill.Name || result.OK != (last.Exit == protocol.ExitOK) {
		return c.failCall(fault.Unsafe("journal_corrupt", "%v: the recorded result of call %s is not a result", journal.ErrCorrupt, c.id).
			WithHint("another program in the sprite changed it; restore an earlier checkpoint"))
	}
	if c.answer != nil && !c.repeated {
		if err := resume.Mark(c.root, c.answer.resume, last.Result, c.now()); err != nil {
			return c.failCall(err)
		}
	}
	if _, err := c.streams.Stdout.Write(append(bytes.Clone(last.Result), '\n')); err != nil {
		fmt.Fprintf(c.streams.Stderr, "%s: write result: %v\n", c.skill.Name, err)
		return protocol.ExitInternal
	}
	return last.Exit
}

// encodeResult encodes a result member by member: encoding/json would first build the encoders of faults, waits and
// warnings, even for a result that has none, which takes longer than all of fs.read.
func encodeResult(r protocol.Result) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"ok":%t`, r.OK)
	var failed error
	add := func(name string, present bool, value any) {
		if !present {
			return
		}
		fmt.Fprintf(&b, `,"%s":`, name)
		raw, isRaw := value.(json.RawMessage)
		if !isRaw {
			var err error
			if raw, err = encodeJSON(value); err != nil {
				failed = errors.Join(failed, err)
				return
			}
		}
		failed = errors.Join(failed, json.Compact(&b, raw))
	}
	add("skill", true, r.Skill)
	add("data", len(r.Data) > 0, r.Data)
	add("error", r.Error != nil, r.Error)
	add("waiting", r.Waiting != nil, r.Waiting)
	add("warnings", len(r.Warnings) > 0, r.Warnings)
	fmt.Fprintf(&b, `,"events":%d`, r.Events)
	add("call_id", r.CallID != "", r.CallID)
	b.WriteByte('}')
	return b.Bytes(), failed
}

// encodeJSON is json.Marshal without HTML escaping.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
