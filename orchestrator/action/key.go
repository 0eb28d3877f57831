package action

import (
	"cmp"
	"encoding/json"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Key identifies an action, so that doing it twice is the same as doing it once (DESIGN 20): PUSH_BRANCH by branch, base
// and head; any other by its call and its canonical parameters. A push without head is known by its bundle's digest until
// Inspect has found the head. Parameters that cannot be read are keyed by their bytes; such an action is always denied.
func Key(callID, action string, params json.RawMessage) string {
	if action == protocol.ActionPushBranch {
		if p, err := decodePush(params); err == nil {
			head := cmp.Or(p.Head, "sha256:"+p.SHA256)
			return pushKey(p, p.Base, head)
		}
	}
	canonical, err := protocol.Canonical(params)
	if err != nil {
		canonical = params
	}
	return lattice.DerivedKey(action, callID, string(canonical))
}

// pushKey returns the key of a push. A push to another repository than the run's is another action.
func pushKey(p protocol.PushBranch, base, head string) string {
	parts := []string{protocol.ActionPushBranch, p.Branch, base, head}
	if p.Repo != "" {
		parts = append(parts, p.Repo)
	}
	for _, more := range p.Also {
		parts = append(parts, more.Repo, more.Branch, more.Base, more.Head)
	}
	return lattice.DerivedKey(parts...)
}

// decodePush reads the parameters of PUSH_BRANCH.
func decodePush(params json.RawMessage) (protocol.PushBranch, error) {
	p, err := decodeParameters[protocol.PushBranch](params)
	if err == nil {
		_, err = checkPush(p)
	}
	return p, err
}
