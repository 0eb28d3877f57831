package skill

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// A nested call is one that the program of another call makes, such as the agent of agent.run or a script of exec.run:
// LATTICE_AGENT_CALL_ID names the parent, the call that the orchestrator knows. It could not resume the nested call, so that
// the parent waits in its place:
//
//	nested call   journal Suspending ─► INFO kind "nested_waiting" ─► result "waiting", exit 75; no checkpoint
//	parent        sees the event ─► stops the program ─► Suspend with the same reason, inputs and request
//	parent        resumed: Answer puts the answers into the nested call's journal ─► the program goes on or starts again
//	nested call   made again with the same input: resumed with the answers
//
// A program that repeats the call starts a new process, which has another id. The id of a nested call that waits is
// therefore derived from its parent's id, its skill and its input. Events have the id of the process; it begins with
// [protocol.NestedPrefix], so that the parent tells them from events of calls that other programs make at the same time.

// KindNestedWaiting is the kind of the INFO event with which a nested call tells its parent that it waits.
const KindNestedWaiting = "nested_waiting"

// Question is the metadata of a KindNestedWaiting event.
type Question struct {
	ParentCallID string                  `json:"parent_call_id"`
	CallID       string                  `json:"call_id"`
	Skill        string                  `json:"skill"`
	InputSHA256  string                  `json:"input_sha256"`
	Waiting      protocol.Waiting        `json:"waiting"`
	Request      *protocol.ActionRequest `json:"request,omitempty"`
}

// Asked returns the question in e, if e is the event of a nested call of c that waits. Any program in the sprite can write
// such an event; it can ask the same by calling a skill.
func (c *Call) Asked(e protocol.Event) (Question, bool) {
	payload, err := e.Open()
	info, ok := payload.(protocol.Info)
	if err != nil || !ok || info.Kind != KindNestedWaiting {
		return Question{}, false
	}
	var q Question
	if json.Unmarshal(info.Metadata, &q) != nil || q.ParentCallID != c.ID || q.Waiting.Reason == "" ||
		q.CallID != nestedID(q.ParentCallID, q.Skill, q.InputSHA256) || checkExpected(q.Waiting.ExpectedInputs) != nil {
		return Question{}, false
	}
	return q, true
}

// Answer writes the answers of this resumed call into the journal of the nested call that asked, which reads them when it
// is repeated. Answer fails if that journal is gone or does not wait any more.
func (c *Call) Answer(ctx context.Context, q Question) error {
	if c.Resume == nil {
		return fmt.Errorf("answer %s: call %s was not resumed", q.Skill, c.ID)
	}
	if q.CallID != nestedID(c.ID, q.Skill, q.InputSHA256) {
		return fmt.Errorf("answer %s: %.140q is not a call of its program", q.Skill, q.CallID)
	}
	if err := checkAnswer(q.Waiting.ExpectedInputs, c.Resume.Inputs); err != nil {
		return err
	}
	j, err := journal.Open(ctx, c.Root, q.CallID, q.Skill, q.InputSHA256, time.Now)
	if err != nil {
		return fmt.Errorf("answer %s: %w", q.Skill, err)
	}
	defer j.Close()
	last := j.Last()
	if last.State != journal.Suspending {
		return fmt.Errorf("answer %s: its call %s does not wait", q.Skill, q.CallID)
	}
	answer := *c.Resume
	answer.Context.CallID = q.CallID
	last.Answer = &answer
	return j.Append(last, true)
}

// Nests reports whether e is an event of a nested call of c, as [protocol.IsNested] does.
func (c *Call) Nests(e protocol.Event) bool { return protocol.IsNested(c.ID, e.CallID) }

func nestedID(parent, skill, inputSHA256 string) string {
	sum := sha256.Sum256([]byte(parent + "\x00" + skill + "\x00" + inputSHA256))
	return fmt.Sprintf("nested_%x", sum[:16])
}

func (r *runner) isNested() bool { return r.env.AgentCallID != "" }

// findNested returns the id of an earlier nested call with the same input that waits or waited, "" if there is none.
func (r *runner) findNested(inputSHA256 string) (string, error) {
	if !r.isNested() {
		return "", nil
	}
	if err := journal.CheckID(r.env.AgentCallID); err != nil {
		return "", fault.BadInput("bad_call_id", "LATTICE_AGENT_CALL_ID: %v", err).WithHint("leave it as the calling skill set it, or unset it")
	}
	id := nestedID(r.env.AgentCallID, r.skill.Name, inputSHA256)
	_, err := r.root.Stat(protocol.CallsDir + "/" + id + ".jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return id, err
}

// suspendNested is suspend for a nested call.
func (w *attempt) suspendNested(ctx context.Context, wait protocol.Waiting, request *protocol.ActionRequest) error {
	j, input := w.journal, w.journal.Last().InputSHA256
	id := nestedID(w.env.AgentCallID, w.skill.Name, input)
	if !w.repeated { // the journal under the process's own id says only that the process began
		var err error
		if j, err = journal.Open(ctx, w.root, id, w.skill.Name, input, w.now); err != nil {
			return err
		}
		defer j.Close()
		if j.Last().State == "" {
			if err := j.Append(journal.Record{State: journal.Started}, false); err != nil {
				return err
			}
		}
	}
	last := j.Last()
	wait.CheckpointID = ""
	if last.State != journal.Suspending {
		record := journal.Record{State: journal.Suspending, Waiting: &wait, Request: request, PayloadSHA256: last.PayloadSHA256}
		if err := j.Append(record, true); err != nil {
			return err
		}
	}
	metadata, err := encodeJSON(Question{
		ParentCallID: w.env.AgentCallID, CallID: id, Skill: w.skill.Name, InputSHA256: input, Waiting: wait, Request: request,
	})
	if err != nil {
		return fmt.Errorf("suspend: %w", err)
	}
	if err := w.out.emitPayload(protocol.Info{Message: w.skill.Name + " waits: " + wait.Reason, Kind: KindNestedWaiting, Metadata: metadata}); err != nil {
		return err
	}
	// A checkpoint has not been taken yet, and the result must name one.
	w.suspended = &suspension{id, &protocol.Waiting{Reason: wait.Reason, CheckpointID: checkpoint.Pending, ExpectedInputs: wait.ExpectedInputs, ResumeAt: wait.ResumeAt}}
	return nil
}
