package driver

import (
	"errors"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A question to a model fails where there is none, and a run whose files may be torn is refused.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var refusal *lattice.Refusal
	if _, err := (effect{r: &Runner{}}).askModel(t.Context()); !errors.As(err, &refusal) || refusal.Fault.Code != "no_models" {
		t.Errorf("ask without a model = %v, want no_models", err)
	}
	if f := Torn("box").Fault; f.Code != "files_torn" || f.Hint == "" {
		t.Errorf("Torn = %+v, want files_torn with a hint", f)
	}
}
