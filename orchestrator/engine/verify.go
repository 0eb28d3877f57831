package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A call of lattice.VerifySkill in a fork of its own is a verification. Its report becomes a signed statement in the journal
// before the node ends. The node succeeds only if the statement is green; otherwise it fails with verify_red.

// proofOp is a call that is a verification.
type proofOp struct{ callOp }

// verifies reports whether the current call is a verification.
func (t proofOp) verifies() bool {
	return t.Visit.Call.Skill == lattice.VerifySkill && t.runsInCopy()
}

// attest has the report of the current call signed.
func (t proofOp) attest(f lattice.CallFinished) {
	if len(f.Data) == 0 {
		f.Data = json.RawMessage(`{}`)
	}
	t.Visit.Ended = &f
	call := t.Visit.Call
	v := lattice.Verification{
		RunID: t.Run.State.RunID, WorkItem: t.Run.State.WorkItem, Of: runstate.AttemptOf(call), CallID: f.CallID, Input: call.Input, Report: f.Data,
	}
	if !t.Run.Program.Node(t.Node).KeepSprite {
		v.Sprite = call.Sprite
	}
	t.Issue(lattice.Command{Kind: lattice.DoAttest, Verification: &v})
}

// attested ends the verification, whose statement is in the journal.
func (t proofOp) attested(f lattice.Attested) error {
	ended := t.Visit.Ended
	if ended == nil {
		return errors.New("a statement about a call that has not ended")
	}
	t.Visit.Ended = nil
	data, err := expr.Decode(ended.Data)
	if err != nil {
		return fmt.Errorf("data of CallFinished: %w", err)
	}
	result, ok := data.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	result["statement"] = f.Statement
	if f.Green {
		t.completeCall(result)
		return nil
	}
	raw, err := expr.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	t.releaseCopy(t.Run.Program.Node(t.Node), false)
	red := machine.Failf(expr.FailVerify, "commit %.12s is red: %s", f.Commit, f.Reason)
	red.Data = raw
	t.FailAttempt(red)
	return nil
}
