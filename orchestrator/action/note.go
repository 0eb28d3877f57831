package action

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/secret"
)

// bindStatement binds a push to the signed statement about its commit, if the run has one. A statement that holds a secret is
// refused: its report is text of the sprite.
func (f *Fulfiller) bindStatement(ctx context.Context, a lattice.Action, known *secret.Known) (lattice.Action, error) {
	var bound Binding
	if err := json.Unmarshal(a.Binding, &bound); err != nil {
		return a, fmt.Errorf("read the binding: %w", err)
	}
	s, ok, err := f.attested(ctx, a.RunID, bound.Head, "")
	if err != nil || !ok {
		return a, err
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(s.Envelope, &envelope); err != nil {
		return a, fmt.Errorf("read the statement: %w", err)
	}
	if name := known.FindIn(string(envelope.Payload)); name != "" {
		return a, secretInChange(name, "the report of its verification")
	}
	bound.Statement = s.Statement
	a.Binding, err = json.Marshal(bound)
	return a, err
}

// boundNote returns the line of the git note that a push is bound to, "" for none.
func (f *Fulfiller) boundNote(ctx context.Context, run string, bound Binding) (string, error) {
	if bound.Statement == "" {
		return "", nil
	}
	s, ok, err := f.attested(ctx, run, bound.Head, bound.Statement)
	if err == nil && !ok {
		err = newRefusal("binding_changed", "ask for the action again", "the run has no statement %.12s about the commit", bound.Statement)
	}
	return string(s.Envelope), err
}
