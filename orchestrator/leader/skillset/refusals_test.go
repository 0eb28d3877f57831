package skillset

import (
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

// A sprite that cannot be given skills is refused, with the reason.
func TestRefusesSprites(t *testing.T) {
	t.Parallel()
	ours := kit{digest: "ours"}
	for code, seen := range map[string]equipped{
		"skills_missing":    {workspace: accessYes},
		"skills_differ":     {digest: "other", version: "v0", workspace: accessYes},
		"workspace_missing": {digest: "ours", complete: true},
	} {
		if _, err := seen.listMissing("box", ours); fault.As(err) == nil || fault.As(err).Code != code || fault.As(err).Hint == "" {
			t.Errorf("lacks of %+v = %v, want %s", seen, err, code)
		}
	}
	for _, seen := range []equipped{{system: "Darwin", machine: "arm64"}, {system: "Linux", machine: "riscv64"}} {
		if _, err := (Equipment{}).findBinary("box", seen); fault.As(err) == nil || fault.As(err).Code != "sprite_machine" {
			t.Errorf("binary for %+v = %v, want sprite_machine", seen, err)
		}
	}
}
