package api

import (
	"encoding/json"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// RunLine is the last line that lattice run --json prints.
type RunLine struct {
	// The run's id.
	RunID string `json:"run_id"`
	// The view of a run that has ended, waits for a person, or is not driven.
	Status lattice.RunStatus `json:"status"`
	// The run's result, null when it has none.
	Outputs json.RawMessage `json:"outputs"`
	// Why the run failed, null when it did not.
	Error *RunError `json:"error"`
	// The waits of the run.
	Waits []lattice.Wait `json:"waits,omitempty"`
	// The reason why a run that has not ended is not driven, with the exit code of the command; the run can be resumed.
	Problem *fault.Error `json:"problem,omitempty"`
}
