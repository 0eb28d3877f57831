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
	"github.com/spritekit/lattice/spritekit/outbox"
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

// defaultPatience is for skills whose manifest does not say how long they may take.
const defaultPatience = 10 * time.Minute

// Serve carries one call of s, whose manifest is m, from stdin to its exit code. The last line that it writes to stdout
// is the result. When ctx ends the skill is expected to return soon; the result is then "cancelled" (130) or, after a
// deadline, "timeout" (124).
func Serve(ctx context.Context, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	return serve(ctx, nil, s, m, env, streams)
}

func serve(ctx context.Context, d *Desk, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	r := &runner{
		desk: d, skill: s, manifest: m, env: env, streams: streams, now: time.Now,
		class: manifests.ClassRead, // nothing has happened yet
	}
	r.out = &output{stdout: streams.Stdout, now: r.now}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return r.fail(err)
	}
	if err := r.adopt(); err != nil {
		return r.fail(err)
	}
	switch decide(r.journal.Last(), r.class, r.answer) {
	case doReplay:
		return r.replay()
	case doRefuse:
		e := fault.Failed("unknown_outcome", "this call of %s was cut off; whether its effect happened is not known", s.Name)
		return r.fail(e.WithHint("look at the outside world, then settle it with lattice answer; it is never run again by itself"))
	case doWait:
		last := r.journal.Last()
		return r.end(Result{}, r.pause(ctx, *last.Waiting, last.Request))
	case doResume:
		return r.work(ctx, r.resume)
	}
	return r.work(ctx, nil)
}

// runner is one call on its way through Serve.
type runner struct {
	desk     *Desk // nil: the call opens the workspace for itself
	skill    Skill
	manifest manifests.Skill
	env      Env
	streams  IO
	now      func() time.Time

	id       string
	class    manifests.Class
	input    json.RawMessage
	root     *workspace.Root
	out      *output
	journal  *journal.Call    // nil until the input is accepted
	resume   *protocol.Resume // names this call; decide says whether it counts
	answer   *answer
	resumed  bool // r.resume is being processed
	recalled bool // this nested call was made before, and waits or waited
	held     bool // the word that it begins may be held back
	spilled  bool // the result went to a file
	waiting  *protocol.Waiting
}

func (r *runner) close() {
	r.prune()
	// Everything that matters was synced; an error of closing changes nothing for the caller.
	if r.journal != nil {
		r.journal.Close()
	}
	if r.out.log != nil {
		r.out.log.Close()
	}
	if r.root != nil && r.desk == nil {
		r.root.Close()
	}
}

// prepare brings everything together that the work needs, or says why the call is refused.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.id = r.env.CallID; r.id == "" {
		r.id = "call_" + strings.ToLower(outbox.NewID(r.now()))
	}
	if err := journal.CheckID(r.id); err != nil {
		r.id = ""
		return fault.BadInput("bad_call_id", "LATTICE_CALL_ID: %v", err).WithHint("leave it unset to have an id drawn")
	}
	for _, v := range []struct{ name, value string }{
		{"LATTICE_SPRITE_ID", r.env.SpriteID}, {"LATTICE_WORK_ITEM_ID or LATTICE_RUN_ID", r.env.WorkItemID},
	} {
		if !utf8.ValidString(v.value) { // no event could carry it
			return fault.BadInput("bad_environment", "%s is not UTF-8", v.name).WithHint("set it to text, or leave it unset")
		}
	}
	if err := r.open(); err != nil {
		return err
	}
	input, err := readInput(r.streams.Stdin)
	if err != nil {
		return err
	}
	if err := complete(r.manifest, input, r.env.Inputs); err != nil {
		return err
	}
	if r.input, err = canonical(input); err != nil {
		return malformed(err)
	}
	class, permissions := r.manifest.Effective(input)
	if err := r.env.Grants.require(r.skill.Name, permissions); err != nil {
		return err
	}
	r.class = class
	return r.openJournal(ctx)
}

func (r *runner) openJournal(ctx context.Context) (err error) {
	sum := sha256.Sum256(r.input)
	digest := hex.EncodeToString(sum[:])
	if err := r.recall(digest); err != nil {
		return err
	}
	if r.env.CallID == "" && !r.recalled {
		r.journal, err = journal.Fresh(r.root, r.id, r.skill.Name, digest, r.now)
		return err
	}
	switch light := r.light(); {
	case r.desk != nil && !r.desk.claim(r.id, r.skill.Name+" "+digest, light):
		err = journal.ErrOtherInput
	case light: // there will be a file only if the call suspends
		r.held = true
		r.journal, err = journal.Fresh(r.root, r.id, r.skill.Name, digest, r.now)
	default:
		patient, cancel := context.WithTimeout(ctx, r.patience())
		defer cancel()
		r.journal, err = journal.Open(patient, r.root, r.id, r.skill.Name, digest, r.now)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		e := fault.Busy("busy", "call %s is being worked on, for longer than %s may take (%v)", r.id, r.skill.Name, r.patience())
		return e.WithHint("end the process that holds %s/%s.jsonl, then make the call again", protocol.CallsDir, r.id)
	case errors.Is(err, journal.ErrOtherInput):
		e := fault.BadInput("call_id_reused", "call %s was made before with another skill or input", r.id)
		return e.WithHint("an id names one call; take a fresh one, or none")
	case errors.Is(err, journal.ErrCorrupt):
		return fault.Unsafe("journal_corrupt", "%v", err).
			WithHint("something else in the sprite wrote it; restore a checkpoint from before")
	case err != nil:
		return err
	}
	switch last := r.journal.Last(); {
	case last.Waiting == nil:
		return nil // a call that never waited has no use for answers, right or wrong
	case r.recalled:
		return r.take(last.Answer)
	}
	return r.readAnswer()
}

// patience is how long to wait for another process that works on the same call: as long as the call may take.
func (r *runner) patience() time.Duration {
	if r.manifest.TimeoutS > 0 {
		return time.Duration(min(r.manifest.TimeoutS, 1e9) * float64(time.Second))
	}
	return defaultPatience
}

func (r *runner) readAnswer() error {
	res, err := resume.Read(r.root)
	if errors.Is(err, resume.ErrInvalid) {
		return fault.BadInput("bad_resume", "%v", err).WithHint(badResumeHint)
	}
	if err != nil || res == nil || res.Context.CallID != r.id {
		return err
	}
	return r.take(res)
}

// take accepts the answers for this call, nil for none.
func (r *runner) take(res *protocol.Resume) error {
	if res == nil {
		return nil
	}
	digest, err := res.PayloadDigest()
	if err != nil {
		return fmt.Errorf("digest of resume.json: %w", err)
	}
	if err := checkAnswer(r.journal.Last().Waiting.ExpectedInputs, res.Inputs); err != nil {
		return err
	}
	r.resume, r.answer = res, &answer{checkpoint: res.CheckpointID, digest: digest}
	return nil
}

// checkAnswer refuses answers of a wrong type before anything believes them; the call goes on waiting. A person's plain
// word has other names than what the skill expects, so that unknown names are for the skill to judge.
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

// work does the skill's work, with the answers of res when the call continues.
func (r *runner) work(ctx context.Context, res *protocol.Resume) int {
	if err := r.begin(res); err != nil {
		return r.fail(err)
	}
	call := &Call{
		ID: r.id, RunID: r.env.RunID, SpriteID: r.env.SpriteID, WorkItemID: r.env.WorkItemID,
		IdempotencyKey: r.env.IdempotencyKey, Manifest: r.manifest, Class: r.class, Input: r.input,
		Grants: r.env.Grants, Root: r.root, Socket: r.env.Socket, Resume: res, Env: r.env.Child,
		Stderr: &syncWriter{w: r.streams.Stderr}, out: r.out, pause: r.pause,
	}
	result, err := r.run(ctx, call)
	if err != nil && ctx.Err() != nil {
		// What a skill says after it was interrupted is about the interruption.
		e := Fault(ctx.Err())
		if e.Exit == protocol.ExitTimeout {
			e = fault.Timeout("timeout", "the time of this call of %s was used up", r.skill.Name)
		}
		err = e.WithDetails(map[string]any{"cause": err.Error()})
	}
	if r.waiting == nil {
		r.out.emitLast(protocol.PhaseFinished{Phase: r.skill.Name, Success: err == nil})
	}
	return r.end(result, err)
}

// begin records that the work starts, and says so.
func (r *runner) begin(res *protocol.Resume) error {
	var at int64
	if r.class != manifests.ClassRead { // which adopts nothing
		var err error
		if at, err = r.out.log.Size(); err != nil {
			return err
		}
	}
	if res == nil {
		// Only the effect of a world skill may not be repeated after power loss; the others are restored or repeated.
		record := journal.Record{State: journal.Started, OutboxAt: at}
		if err := r.journal.Append(record, r.class == manifests.ClassWorld); err != nil {
			return err
		}
		if r.held {
			r.out.emitFirst(protocol.PhaseStarted{Phase: r.skill.Name})
			r.desk.held.add(r.out)
			return nil
		}
		return r.out.emit(protocol.PhaseStarted{Phase: r.skill.Name})
	}
	last := r.journal.Last()
	record := journal.Record{
		State: journal.Resumed, PayloadSHA256: r.answer.digest, Waiting: last.Waiting, Request: last.Request, OutboxAt: at,
	}
	if err := r.journal.Append(record, true); err != nil {
		return err
	}
	r.resumed = true
	metadata, err := json.Marshal(map[string]string{
		"checkpoint_id": res.CheckpointID, "payload_sha256": r.answer.digest, "answered_by": res.Context.AnsweredBy,
	})
	if err != nil {
		return fmt.Errorf("acknowledge resume: %w", err)
	}
	return r.out.emit(protocol.Info{
		Message: r.skill.Name + " continues from checkpoint " + res.CheckpointID, Kind: "resume", Metadata: metadata,
	})
}

// run calls the skill and turns a panic into an error: the caller shall get a result line whatever happens.
func (r *runner) run(ctx context.Context, call *Call) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(call.Stderr, "panic: %v\n%s", p, debug.Stack())
			err = fault.Internal("internal", "%s panicked: %v", r.skill.Name, p).
				WithHint("this is a defect of the skill; stderr has the stack")
		}
	}()
	return r.skill.Run(ctx, call)
}
