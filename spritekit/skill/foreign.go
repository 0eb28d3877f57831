package skill

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// A third-party skill is a program that implements the contract itself. Its callers need these parts of Serve.

// NewCallID returns a new id for a call in env. That of a nested call begins with the digest of its parent's.
func NewCallID(env Env, now time.Time) string {
	prefix := "call_"
	if env.AgentCallID != "" {
		prefix = protocol.NestedPrefix(env.AgentCallID)
	}
	return prefix + strings.ToLower(outbox.NewID(now))
}

// Admit reads the input of a call of m and checks it as Serve does: strict JSON, the manifest, the grants. It returns the
// input with defaults, in canonical form.
func Admit(m manifests.Skill, env Env, stdin io.Reader) (json.RawMessage, error) {
	input, err := readInput(stdin, env.StdinBytes)
	if err != nil {
		return nil, err
	}
	if err := completeInput(m, input, env.Inputs); err != nil {
		return nil, err
	}
	checked, err := encodeInput(input)
	if err != nil {
		return nil, malformed(err)
	}
	_, permissions := m.Effective(input)
	return checked, env.Grants.require(m.Name, permissions)
}

// FailureLine returns the result line of a call that failed with e.
func FailureLine(e *fault.Error, skill, callID string) ([]byte, error) {
	return encodeResult(protocol.Result{Skill: skill, CallID: callID, Error: &e.Fault})
}

// Fit returns line, the line of result, if it has at most limit bytes (0: protocol.SpillAt). Otherwise it moves the data
// of result, or the details of its error, to a file of the workspace and returns the new line.
func Fit(root *workspace.Root, result *protocol.Result, line []byte, limit int) ([]byte, error) {
	if limit <= 0 || limit > protocol.SpillAt {
		limit = protocol.SpillAt
	}
	if len(line) <= limit {
		return line, nil
	}
	bulk := &result.Data
	if result.Error != nil {
		bulk = &result.Error.Details
	}
	if root == nil || len(*bulk) == 0 {
		return nil, fault.Limit("result_too_large", "the result has %d bytes, a line takes %d", len(line), limit)
	}
	ref, err := outbox.Spill(root, *bulk)
	if err != nil {
		return nil, err
	}
	if *bulk, err = json.Marshal(ref); err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, protocol.Warning{
		Code: protocol.WarnSpilled, Message: fmt.Sprintf("%d bytes of the result are in the file %s; read it in parts", ref.Size, ref.Path),
	})
	return encodeResult(*result)
}
