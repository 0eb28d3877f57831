package follow

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
)

// TestDescribeFailure proposes a look into the sprite only where there is one.
func TestDescribeFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, sprite, fault string
		look                bool
	}{
		{"kept", "box", `{"code":"timeout","message":"too long"}`, true},
		{"gone", "box", `{"code":"sprite_gone","message":"get sprite box: not found; the sprite was removed"}`, false},
		{"none", "", `{}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			DescribeFailure(&cli.Console{Err: &out}, api.RunView{RunID: "run_1", Sprite: tt.sprite, Error: &api.RunError{Data: json.RawMessage(tt.fault)}})
			if got := strings.Contains(out.String(), "lattice sprite exec box"); got != tt.look {
				t.Errorf("proposes a look: %t, want %t:\n%s", got, tt.look, &out)
			}
		})
	}
}
