package drive

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A second handover is refused while one is tried.
func TestYieldTwice(t *testing.T) {
	t.Parallel()
	d := NewDrives(zerolog.Nop(), false, nil)
	if _, err := d.yieldRuns(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.yieldRuns(); fault.As(err) == nil || fault.As(err).Code != "handing_over" {
		t.Errorf("the second yield = %v, want handing_over", err)
	}
}

// A flow that asks models is not admitted where there are none.
func TestAdmitWithoutModels(t *testing.T) {
	t.Parallel()
	p, findings := check.Parse([]byte(`{"execir_version":"1.0","entry_node":"a","nodes":[{"id":"a","op":"LLM_EXTRACT","model_class":"SMALL_EXEC","prompt_template":"extract_intent_v1",
		"inputs":{"text":"x","now":"2030-01-31T08:00:00Z","timezone":"UTC"},"output_schema":"ExtractedIntent","validators":[{"type":"json_schema","schema":"ExtractedIntent"}],
		"retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2}}]}`), manifests.Lookup)
	if p == nil {
		t.Fatalf("%+v", findings)
	}
	if _, err := new(ModelSet).Admit(p, api.Options{}); fault.As(err) == nil || fault.As(err).Code != "models_missing" {
		t.Errorf("Admit = %v, want models_missing", err)
	}
}
