package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/resume"
)

const (
	maxWarnings = 100
	maxMessage  = 8 << 10 // bytes of an error message
)

// end turns what the work gave back into the result line and the exit code.
func (r *runner) end(result Result, err error) int {
	if r.waiting != nil { // whatever the skill did after that, the call waits
		return r.finish(protocol.Result{OK: true, Waiting: r.waiting}, protocol.ExitWaiting)
	}
	if err != nil {
		return r.fail(err)
	}
	data, err := object(result.Data)
	if err != nil {
		return r.fail(err)
	}
	return r.finish(protocol.Result{OK: true, Data: data}, protocol.ExitOK)
}

func (r *runner) fail(err error) int {
	e := Fault(err)
	wire := e.Fault
	if wire.Hint == "" && e.Exit == protocol.ExitBadInput {
		wire.Hint = "spritekit " + r.skill.Name + " --help lists the inputs"
	}
	if len(wire.Message) > maxMessage {
		wire.Message = strings.ToValidUTF8(wire.Message[:maxMessage], "") + "…"
	}
	return r.finish(protocol.Result{Error: &wire}, e.Exit)
}

// object marshals a result's data, which is always a JSON object.
func object(data any) (json.RawMessage, error) {
	if data == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := encode(data)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	if string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("encode the result: a %T is no object", data)
	}
	return raw, nil
}

// finish makes the result known: outbox, journal, marker, stdout, in this order. Whoever saw it can find it again.
func (r *runner) finish(result protocol.Result, exit int) int {
	result.Skill, result.CallID = r.skill.Name, r.id
	if r.held {
		r.desk.held.remove(r.out)
	}
	said, warnings := r.out.close()
	result.Events, result.Warnings = said+r.out.left(), warnings
	if len(result.Warnings) > maxWarnings {
		result.Warnings = result.Warnings[:maxWarnings]
	}
	line, err := r.record(&result, exit)
	if err != nil {
		// The work may be done, but nobody would find that out after a crash: it did not succeed.
		e := Fault(err)
		result = protocol.Result{Skill: result.Skill, CallID: result.CallID, Events: result.Events - r.out.left(), Error: &e.Fault}
		exit = e.Exit
		line, err = encodeResult(result)
	}
	if err == nil {
		err = r.out.finish(line)
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

// record writes the result where it can be found again and returns its line.
func (r *runner) record(result *protocol.Result, exit int) (line []byte, err error) {
	line, err = r.fit(result)
	switch {
	case r.out.log == nil:
		return line, err
	case err != nil:
		return nil, errors.Join(err, r.out.conclude())
	}
	if err := r.out.conclude(resultInfo(*result, line, r.class, exit)); err != nil {
		return nil, err
	}
	if r.class != manifests.ClassRead {
		if err := r.out.log.Sync(); err != nil {
			return nil, err
		}
	}
	if r.journal == nil || !settled(r.journal.Last().State, result, exit) {
		return line, nil
	}
	last := r.journal.Last()
	done := journal.Record{
		State: journal.Done, Exit: exit, PayloadSHA256: last.PayloadSHA256, Waiting: last.Waiting, Request: last.Request,
	}
	if r.class != manifests.ClassRead { // which does the work again
		done.Result = line
	}
	if err := r.journal.Append(done, false); err != nil { // the synced result in the outbox makes up for it
		return nil, err
	}
	if r.resumed && !r.recalled { // the marker is for the call that the orchestrator resumed
		return line, resume.Mark(r.root, r.resume, line, r.now())
	}
	return line, nil
}

// settled reports whether a result ends the call for good. A call that was interrupted, or that a full disk stopped,
// stays as it is: it counts as crashed, and the rules of its class say what comes next.
func settled(state journal.State, result *protocol.Result, exit int) bool {
	stopped := exit == protocol.ExitCancelled ||
		result.Error != nil && (result.Error.Code == codeNoSpace || result.Error.Code == codeQuota)
	return (state == journal.Started || state == journal.Resumed) && result.Waiting == nil && !stopped
}

// fit encodes a result and moves its bulk to a file when it is too large for a line.
func (r *runner) fit(result *protocol.Result) ([]byte, error) {
	line, err := encodeResult(*result)
	if err != nil {
		return nil, err
	}
	line, err = Fit(r.root, result, line, r.env.MaxResult)
	r.spilled = Spilled(*result)
	return line, err
}

// protocol.WarnSpilled warns that data, or the details of an error, are in a file that stands in for them.
// Spilled reports whether a result's bulk is in a file: its data, or the details of its error, are then {path,size,sha256}.
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

// resultInfo is the outbox's record of a result. Of a read skill it keeps a digest: its results can be large, and are
// made anew rather than adopted.
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

// replay gives the recorded result once more. Its events are in the outbox; none is emitted again.
func (r *runner) replay() int {
	last := r.journal.Last()
	result, ok := protocol.DecodeResult(last.Result)
	if !ok || result.Skill != r.skill.Name || result.OK != (last.Exit == protocol.ExitOK) {
		return r.fail(fault.Unsafe("journal_corrupt", "%v: the recorded result of call %s is none", journal.ErrCorrupt, r.id).
			WithHint("something else in the sprite wrote it; restore a checkpoint from before"))
	}
	if r.answer != nil && !r.recalled {
		if err := resume.Mark(r.root, r.resume, last.Result, r.now()); err != nil {
			return r.fail(err)
		}
	}
	if _, err := r.streams.Stdout.Write(append(bytes.Clone(last.Result), '\n')); err != nil {
		fmt.Fprintf(r.streams.Stderr, "%s: write result: %v\n", r.skill.Name, err)
		return protocol.ExitInternal
	}
	return last.Exit
}

// encodeResult is encode of a result, member by member: encoding/json would study faults, waits and warnings before it
// writes a result that has none, which takes longer than all of fs.read.
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
			if raw, err = encode(value); err != nil {
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

// encode is json.Marshal without the escapes that only a page of HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
