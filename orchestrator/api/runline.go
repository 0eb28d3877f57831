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
	// How the run stands; it has ended, or waits for a person, or nobody drives it.
	Status lattice.RunStatus `json:"status"`
	// The run's result, null when it has none.
	Outputs json.RawMessage `json:"outputs"`
	// Why the run failed, null when it did not.
	Error *RunError `json:"error"`
	// What the run waits for.
	Waits []lattice.Wait `json:"waits,omitempty"`
	// Why nobody drives a run that has not ended, with the exit code of the command; the run can be resumed.
	Problem *fault.Error `json:"problem,omitempty"`
}
