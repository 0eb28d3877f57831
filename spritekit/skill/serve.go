package skill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/resume"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// IO is the three streams of a call.
type IO struct {
	Stdin  io.Reader // one JSON object; empty counts as {}
	Stdout io.Writer // event lines and the result line
	Stderr io.Writer // for people
}

// defaultTimeout is for skills whose manifest has no timeout.
const defaultTimeout = 10 * time.Minute

// Serve carries one call of s, whose manifest is m, from stdin to its exit code. The last line that it writes to stdout
// is the result. When ctx ends the skill must return soon; the result is then "cancelled" (130) or, after a deadline,
// "timeout" (124).
func Serve(ctx context.Context, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	return serve(ctx, nil, s, m, env, streams)
}

func serve(ctx context.Context, d *Desk, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	r := &runner{desk: d, skill: s, manifest: m, env: env, streams: streams, now: time.Now}
	r.out = &output{stdout: streams.Stdout, now: r.now}
	defer r.close()
	c, err := r.acceptCall(ctx)
	if err != nil {
		return r.refuseCall(err)
	}
	defer c.close()
	if err := c.adoptResult(); err != nil {
		return c.failCall(err)
	}
	switch decide(c.journal.Last(), c.class, c.answer) {
	case doReplay:
		return c.replayResult()
	case doRefuse:
		return c.failCall(fault.Failed("unknown_outcome", "this call of %s was cut off; whether its effect happened is not known", s.Name).
			WithHint("look at the outside world, then settle it with lattice answer; it is never run again by itself"))
	case doWait:
		w := c.attempt(nil)
		last := c.journal.Last()
		return w.end(Result{}, w.suspend(ctx, *last.Waiting, last.Request))
	case doResume:
		return c.attempt(c.answer).runWork(ctx)
	}
	return c.attempt(nil).runWork(ctx)
}

// runner holds the inputs and the open files of one call. Its fields do not change after the call was accepted.
type runner struct {
	desk     *Desk // nil: the call opens the workspace for itself
	skill    Skill
	manifest manifests.Skill
	env      Env
	streams  IO
	now      func() time.Time

	id   string // given or drawn
	root *workspace.Root
	out  *output
}

// accepted is a call whose input, permissions and id were checked and whose journal is open. Its fields do not change.
type accepted struct {
	*runner
	id       string // the runner's, or that of the nested call that this one repeats
	class    manifests.Class
	input    json.RawMessage
	journal  *journal.Call
	answer   *answer // to a call that waits or waited, nil for none; decide says whether it counts
	repeated bool    // this nested call was made before, and waits or waited
	held     bool    // PHASE_STARTED may be delayed
}

// attempt is one run of the skill for an accepted call.
type attempt struct {
	*accepted
	resumed   *answer     // the answer that this attempt continues with, nil for a first attempt
	suspended *suspension // set when the skill has called Suspend
}

func (c *accepted) attempt(resumed *answer) *attempt { return &attempt{accepted: c, resumed: resumed} }

// close releases the files of the call. Everything durable was synced before, so that errors of Close are ignored.
func (r *runner) close() {
	r.pruneSpilled()
	if r.out.log != nil {
		r.out.log.Close()
	}
	if r.root != nil && r.desk == nil {
		r.root.Close()
	}
}

func (c *accepted) close() {
	c.pruneJournals()
	c.journal.Close()
}

// acceptCall opens the workspace, reads and checks the input, checks the permissions and opens the journal. An error refuses
// the call.
func (r *runner) acceptCall(ctx context.Context) (*accepted, error) {
	if r.id = r.env.CallID; r.id == "" {
		r.id = NewCallID(r.env, r.now())
	}
	if err := journal.CheckID(r.id); err != nil {
		r.id = ""
		return nil, fault.BadInput("bad_call_id", "LATTICE_CALL_ID: %v", err).WithHint("leave it unset to have an id drawn")
	}
	for _, v := range []struct{ name, value string }{
		{"LATTICE_SPRITE_ID", r.env.SpriteID}, {"LATTICE_WORK_ITEM_ID or LATTICE_RUN_ID", r.env.WorkItemID},
	} {
		if !utf8.ValidString(v.value) { // an event cannot contain it
			return nil, fault.BadInput("bad_environment", "%s is not UTF-8", v.name).WithHint("set it to text, or leave it unset")
		}
	}
	if err := r.openAll(); err != nil {
		return nil, err
	}
	input, err := readInput(r.streams.Stdin, r.env.StdinBytes)
	if err != nil {
		return nil, err
	}
	if err := completeInput(r.manifest, input, r.env.Inputs); err != nil {
		return nil, err
	}
	c := &accepted{runner: r, id: r.id}
	if c.input, err = encodeInput(input); err != nil {
		return nil, malformed(err)
	}
	var permissions []string
	c.class, permissions = r.manifest.Effective(input)
	if err := r.env.Grants.require(r.skill.Name, permissions); err != nil {
		return nil, err
	}
	if err := c.openJournal(ctx); err != nil {
		return nil, err
	}
	if c.answer, err = c.readAnswer(); err != nil {
		c.journal.Close()
		return nil, err
	}
	return c, nil
}

// openJournal opens the journal of the call, waiting for another process that works on the same call.
func (c *accepted) openJournal(ctx context.Context) error {
	sum := sha256.Sum256(c.input)
	digest := hex.EncodeToString(sum[:])
	nested, err := c.findNested(digest)
	if err != nil {
		return err
	}
	if c.repeated = nested != ""; c.repeated {
		c.id = nested
	}
	if c.env.CallID == "" && !c.repeated {
		c.journal, err = journal.Fresh(c.root, c.id, c.skill.Name, digest, c.now)
		return err
	}
	c.held = c.needsNoJournal()
	switch {
	case c.desk != nil && !c.desk.claimUse(c.id, c.skill.Name+" "+digest, c.held):
		err = journal.ErrOtherInput
	case c.held: // a file is created only if the call suspends
		c.journal, err = journal.Fresh(c.root, c.id, c.skill.Name, digest, c.now)
	default:
		limited, cancel := context.WithTimeout(ctx, c.callTimeout())
		defer cancel()
		c.journal, err = journal.Open(limited, c.root, c.id, c.skill.Name, digest, c.now)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fault.Busy("busy", "another process has worked on call %s for longer than %s may take (%v)", c.id, c.skill.Name, c.callTimeout()).
			WithHint("end the process that holds %s/%s.jsonl, then make the call again", protocol.CallsDir, c.id)
	case errors.Is(err, journal.ErrOtherInput):
		return fault.BadInput("call_id_reused", "call %s was made before with another skill or input", c.id).
			WithHint("use a new id for each call, or none")
	case errors.Is(err, journal.ErrCorrupt):
		return fault.Unsafe("journal_corrupt", "%v", err).
			WithHint("another program in the sprite changed it; restore an earlier checkpoint")
	}
	return err
}

// callTimeout returns how long one call may take, which is also how long to wait for another process that works on it.
func (r *runner) callTimeout() time.Duration {
	if r.manifest.TimeoutS > 0 {
		return time.Duration(min(r.manifest.TimeoutS, 1e9) * float64(time.Second))
	}
	return defaultTimeout
}

// readAnswer returns the answer for this call, nil if there is none or the call never waited.
func (c *accepted) readAnswer() (*answer, error) {
	last := c.journal.Last()
	if last.Waiting == nil {
		return nil, nil
	}
	res := last.Answer
	if !c.repeated {
		var err error
		res, err = resume.Read(c.root)
		if errors.Is(err, resume.ErrInvalid) {
			return nil, fault.BadInput("bad_resume", "%v", err).WithHint(badResumeHint)
		}
		if err != nil {
			return nil, err
		}
		if res != nil && res.Context.CallID != c.id {
			return nil, nil
		}
	}
	if res == nil {
		return nil, nil
	}
	digest, err := res.PayloadDigest()
	if err != nil {
		return nil, fmt.Errorf("digest of resume.json: %w", err)
	}
	if err := checkAnswer(last.Waiting.ExpectedInputs, res.Inputs); err != nil {
		return nil, err
	}
	return &answer{checkpoint: res.CheckpointID, digest: digest, resume: res}, nil
}

// checkAnswer refuses answers of the wrong type; the call keeps waiting. Names that the skill does not expect are allowed,
// because a plain approval or rejection has names of its own; the skill judges those.
func checkAnswer(expected map[string]string, inputs json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &given); err != nil {
		return fault.BadInput("bad_resume", "%v: inputs: %v", resume.ErrInvalid, err).WithHint(badResumeHint)
	}
	var m manifests.Skill
	for name, t := range expected {
		if _, ok := given[name]; ok {
			m.Inputs = append(m.Inputs, manifests.Field{Name: name, Type: t})
		}
	}
	maps.DeleteFunc(given, func(name string, _ json.RawMessage) bool { _, ok := expected[name]; return !ok })
	var problems []string
	for _, p := range m.CheckInput(given) {
		problems = append(problems, "/inputs"+p.Pointer+" "+p.Message)
	}
	if len(problems) == 0 {
		return nil
	}
	return fault.BadInput("bad_resume", "%v: %s", resume.ErrInvalid, strings.Join(problems, "; ")).WithHint(badResumeHint)
}

const badResumeHint = "the orchestrator writes .lattice/resume.json; resume the run again"

// runWork runs the skill and returns the exit code.
func (w *attempt) runWork(ctx context.Context) int {
	state := w.journal.Last().State
	if err := w.beginCall(); err != nil {
		return w.failCall(err)
	}
	call := &Call{
		ID: w.id, RunID: w.env.RunID, SpriteID: w.env.SpriteID, WorkItemID: w.env.WorkItemID,
		IdempotencyKey: w.env.IdempotencyKey, Manifest: w.manifest, Class: w.class, Input: w.input,
		Grants: w.env.Grants, Root: w.root, Socket: w.env.Socket, Env: w.env.Child,
		Stderr: &syncWriter{w: w.streams.Stderr}, out: w.out, suspend: w.suspend, Again: state == journal.Started || state == journal.Resumed, Nested: w.isNested(),
	}
	if w.resumed != nil {
		call.Resume = w.resumed.resume
	}
	result, err := w.runSkill(ctx, call)
	if err != nil && ctx.Err() != nil {
		// An error after an interruption is a consequence of it.
		e := Fault(ctx.Err())
		if e.Exit == protocol.ExitTimeout {
			e = fault.Timeout("timeout", "the call of %s exceeded its timeout", w.skill.Name)
		}
		err = e.WithDetails(map[string]any{"cause": err.Error()})
	}
	if w.suspended == nil {
		w.out.emitLast(protocol.PhaseFinished{Phase: w.skill.Name, Success: err == nil})
	}
	return w.end(result, err)
}

// beginCall records in the journal that the work starts or continues, and emits the event for it.
func (w *attempt) beginCall() error {
	var at int64
	if w.class != manifests.ClassRead { // a read never adopts a result from the outbox
		var err error
		if at, err = w.out.log.Size(); err != nil {
			return err
		}
	}
	if w.resumed != nil {
		return w.beginResumed(at)
	}
	// Only the effect of a world skill must not be repeated after power loss; the others are restored or repeated.
	record := journal.Record{State: journal.Started, OutboxAt: at}
	if err := w.journal.Append(record, w.class == manifests.ClassWorld); err != nil {
		return err
	}
	if w.held {
		w.out.emitFirst(protocol.PhaseStarted{Phase: w.skill.Name})
		w.desk.held.add(w.out)
		return nil
	}
	return w.out.emitPayload(protocol.PhaseStarted{Phase: w.skill.Name})
}

func (w *attempt) beginResumed(outboxAt int64) error {
	last, a := w.journal.Last(), w.resumed
	record := journal.Record{
		State: journal.Resumed, PayloadSHA256: a.digest, Waiting: last.Waiting, Request: last.Request, OutboxAt: outboxAt,
	}
	if err := w.journal.Append(record, true); err != nil {
		return err
	}
	metadata, err := json.Marshal(map[string]string{
		"checkpoint_id": a.checkpoint, "payload_sha256": a.digest, "answered_by": a.resume.Context.AnsweredBy,
	})
	if err != nil {
		return fmt.Errorf("acknowledge resume: %w", err)
	}
	return w.out.emitPayload(protocol.Info{
		Message: w.skill.Name + " continues from checkpoint " + a.checkpoint, Kind: "resume", Metadata: metadata,
	})
}

// runSkill calls the skill and turns a panic into an error, so that the call always has a result line.
func (r *runner) runSkill(ctx context.Context, call *Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(call.Stderr, "panic: %v\n%s", p, debug.Stack())
			err = fault.Internal("internal", "%s panicked: %v", r.skill.Name, p).
				WithHint("this is a defect of the skill; stderr has the stack")
		}
	}()
	return r.skill.Run(ctx, call)
}
