// Package resume reads the answer that the orchestrator writes for a sprite that waited, /workspace/.lattice/resume.json, and writes
// the marker /workspace/.lattice/resumed by which a duplicate resume is recognised ("Resume Semantics", DESIGN 24).
//
// Both files can be written by anything in the sprite. The call journal decides whether a call really waited and
// whether an answer was processed before; the marker is there for scripts and for people.
package resume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// maxSize bounds both files, in bytes.
const maxSize = 4 << 20

// ErrInvalid is wrapped when resume.json is there but is no resume payload.
var ErrInvalid = errors.New("resume.json is invalid")

// Read reads resume.json. It returns nil and no error when there is none.
func Read(root *workspace.Root) (*protocol.Resume, error) {
	raw, err := root.ReadFile(protocol.ResumeFile, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read resume.json: %w", err)
	}
	var r protocol.Resume
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	var inputs map[string]json.RawMessage
	switch {
	case r.CheckpointID == "":
		return nil, fmt.Errorf("%w: checkpoint_id is required", ErrInvalid)
	case len(r.Inputs) == 0:
		r.Inputs = json.RawMessage("{}")
	case json.Unmarshal(r.Inputs, &inputs) != nil || inputs == nil:
		return nil, fmt.Errorf("%w: inputs is not an object", ErrInvalid)
	}
	return &r, nil
}

// Processed reports whether the marker says that r was processed. A marker that cannot be read counts as none: doing
// the work again is what a resume without marker means.
func Processed(root *workspace.Root, r *protocol.Resume) (bool, error) {
	digest, err := r.PayloadDigest()
	if err != nil {
		return false, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	raw, err := root.ReadFile(protocol.MarkerFile, maxSize)
	if err != nil {
		return false, nil
	}
	var m protocol.Marker
	if json.Unmarshal(raw, &m) != nil {
		return false, nil
	}
	return m.CheckpointID == r.CheckpointID && m.PayloadSHA256 == digest, nil
}

// Mark writes the marker for r atomically. result is the call's result line, nil where there is none.
func Mark(root *workspace.Root, r *protocol.Resume, result json.RawMessage, at time.Time) error {
	digest, err := r.PayloadDigest()
	if err != nil {
		return fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	raw, err := json.Marshal(protocol.Marker{
		CheckpointID: r.CheckpointID, PayloadSHA256: digest, ProcessedAt: protocol.FormatTime(at), Result: result,
	})
	if err != nil {
		return fmt.Errorf("write resume marker: %w", err)
	}
	if err := root.WriteFile(protocol.MarkerFile, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write resume marker: %w", err)
	}
	return nil
}
