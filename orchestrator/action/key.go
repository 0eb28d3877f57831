package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Key identifies an action, so that doing it twice is the same as doing it once (DESIGN 20): PUSH_BRANCH by branch, base
// and head; any other by its call and its canonical parameters. A push without head is known by its bundle's digest until
// Inspect has found the head. Parameters that cannot be read are keyed by their bytes; such an action is always denied.
func Key(callID, action string, params json.RawMessage) string {
	if action == protocol.ActionPushBranch {
		if p, err := decodePush(params); err == nil {
			head := p.Head
			if head == "" {
				head = "sha256:" + p.SHA256
			}
			return lattice.DerivedKey(action, p.Branch, p.Base, head)
		}
	}
	canonical, err := protocol.Canonical(params)
	if err != nil {
		canonical = params
	}
	return lattice.DerivedKey(action, callID, string(canonical))
}

// decodePush reads the parameters of PUSH_BRANCH, strictly: an unknown member could be meant to widen the request.
func decodePush(params json.RawMessage) (protocol.PushBranch, error) {
	var p protocol.PushBranch
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read the parameters of PUSH_BRANCH: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("read the parameters of PUSH_BRANCH: there is more than one value")
	}
	for _, m := range []struct{ name, value string }{{"branch", p.Branch}, {"base", p.Base}, {"bundle", p.Bundle}, {"sha256", p.SHA256}} {
		if m.value == "" {
			return p, fmt.Errorf("read the parameters of PUSH_BRANCH: %s is missing", m.name)
		}
	}
	if !isDigest(p.SHA256) {
		return p, errors.New("read the parameters of PUSH_BRANCH: sha256 is not a lower-case hex digest")
	}
	return p, nil
}

func isDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
