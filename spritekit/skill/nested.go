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

// A nested call is one that an agent makes while agent.run works: LATTICE_AGENT_CALL_ID names the call of agent.run.
// The orchestrator does not know it and could not resume it, so that it does not wait by itself:
//
//	nested call   journal Suspending ─► INFO kind "nested_waiting" ─► result "waiting", exit 75; no checkpoint
//	agent.run     sees the event ─► stops the agent ─► Suspend with the same reason, inputs and request
//	agent.run     resumed: Answer puts the answers into the nested call's journal ─► the agent's session goes on
//	nested call   made again with the same input: resumed with the answers
//
// An agent that asks again starts a new process with no id to go by. The id of a nested call that waits is therefore
// made of its parent's, its skill and its input.

// KindNestedWaiting marks the INFO event by which a nested call tells agent.run what it waits for.
const KindNestedWaiting = "nested_waiting"

// Question is what a nested call waits for.
type Question struct {
	ParentCallID string                  `json:"parent_call_id"`
	CallID       string                  `json:"call_id"`
	Skill        string                  `json:"skill"`
	InputSHA256  string                  `json:"input_sha256"`
	Waiting      protocol.Waiting        `json:"waiting"`
	Request      *protocol.ActionRequest `json:"request,omitempty"`
}

// Asked reads the question out of an event that a nested call of this one emitted, if it is such an event. Anything in
// the sprite can write one; it then asks no more than it could have asked by a skill.
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

// Answer hands the answers of this resumed call on to the nested call that asked, which finds them when it is made
// again. A journal that is gone or that does not wait any more is an error.
func (c *Call) Answer(ctx context.Context, q Question) error {
	if c.Resume == nil {
		return fmt.Errorf("answer %s: call %s was not resumed", q.Skill, c.ID)
	}
	if q.CallID != nestedID(c.ID, q.Skill, q.InputSHA256) {
		return fmt.Errorf("answer %s: %.140q is no call of this agent's", q.Skill, q.CallID)
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

func nestedID(parent, skill, inputSHA256 string) string {
	sum := sha256.Sum256([]byte(parent + "\x00" + skill + "\x00" + inputSHA256))
	return fmt.Sprintf("nested_%x", sum[:16])
}

func (r *runner) nested() bool { return r.env.AgentCallID != "" }

// recall finds out whether a nested call was made before and waits, or waited; it then goes by the id of that time.
func (r *runner) recall(inputSHA256 string) error {
	if !r.nested() {
		return nil
	}
	if err := journal.CheckID(r.env.AgentCallID); err != nil {
		return fault.BadInput("bad_call_id", "LATTICE_AGENT_CALL_ID: %v", err).WithHint("leave it as agent.run set it, or unset it")
	}
	id := nestedID(r.env.AgentCallID, r.skill.Name, inputSHA256)
	_, err := r.root.Stat(protocol.CallsDir + "/" + id + ".jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.id, r.env.CallID, r.recalled = id, id, true
	return nil
}

// ask is pause for a nested call.
func (r *runner) ask(ctx context.Context, w protocol.Waiting, request *protocol.ActionRequest) error {
	input := r.journal.Last().InputSHA256
	if !r.recalled { // from here on the call is known by an id that can be found again
		id := nestedID(r.env.AgentCallID, r.skill.Name, input)
		j, err := journal.Open(ctx, r.root, id, r.skill.Name, input, r.now)
		if err != nil {
			return err
		}
		r.journal.Close() // it says no more than that this process began
		r.id, r.journal, r.recalled = id, j, true
		if j.Last().State == "" {
			if err := j.Append(journal.Record{State: journal.Started}, false); err != nil {
				return err
			}
		}
	}
	last := r.journal.Last()
	w.CheckpointID = ""
	if last.State != journal.Suspending {
		record := journal.Record{State: journal.Suspending, Waiting: &w, Request: request, PayloadSHA256: last.PayloadSHA256}
		if err := r.journal.Append(record, true); err != nil {
			return err
		}
	}
	metadata, err := encode(Question{
		ParentCallID: r.env.AgentCallID, CallID: r.id, Skill: r.skill.Name, InputSHA256: input, Waiting: w, Request: request,
	})
	if err != nil {
		return fmt.Errorf("suspend: %w", err)
	}
	if err := r.out.emit(protocol.Info{Message: r.skill.Name + " waits: " + w.Reason, Kind: KindNestedWaiting, Metadata: metadata}); err != nil {
		return err
	}
	// No checkpoint is taken yet, and the result needs a name for it.
	r.waiting = &protocol.Waiting{Reason: w.Reason, CheckpointID: checkpoint.Pending, ExpectedInputs: w.ExpectedInputs}
	return nil
}
