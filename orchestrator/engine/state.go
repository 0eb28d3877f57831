package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// State is everything that a run believes. It is plain JSON and complete: with the program it is all that Step needs.
// Values are treated as immutable; Step copies what it changes.
type State struct {
	RunID    string            `json:"run_id"`
	WorkItem string            `json:"work_item_id"`
	Program  string            `json:"program"` // digest
	Sprite   string            `json:"sprite"`  // name of the main sprite, "" when the flow calls no skill
	Status   lattice.RunStatus `json:"status"`
	Epoch    int               `json:"epoch"`
	Grants   []string          `json:"grants"`

	// The namespaces of ExecIR; numbers are json.Number throughout. Err is what the last catch caught.
	Vars map[string]any `json:"vars"`
	Tmp  map[string]any `json:"tmp"`
	In   any            `json:"in"`
	Ctx  map[string]any `json:"ctx"`
	Err  any            `json:"err,omitempty"`

	Node       string                  `json:"node,omitempty"` // where the run is, or where it ended
	Visit      *Visit                  `json:"visit,omitempty"`
	Visits     map[string]int          `json:"visits"`
	Traversals map[string]int          `json:"traversals"` // of edges with max_traversals, by "from→to#n"
	Steps      int                     `json:"steps"`      // nodes begun and calls suspended, bounded by max_steps
	Serial     int                     `json:"serial"`     // number of the last command
	Pairs      map[string]lattice.Pair `json:"pairs"`      // newest boundary by sprite
	Dirty      map[string]bool         `json:"dirty"`      // sprites whose files may have changed since their pair

	// Pending are the commands that no fact has answered yet, oldest first. Recovery is performing them.
	Pending []lattice.Command `json:"pending"`
	Waits   []lattice.Wait    `json:"waits"`
	// Started names the nodes that the last fact began.
	Started []string `json:"started,omitempty"`

	Output  any         `json:"output,omitempty"`  // of a succeeded run
	Failure *ir.Failure `json:"failure,omitempty"` // of a failed or canceled one
}

// Visit is what the current node is doing.
type Visit struct {
	Number  int   `json:"number"`            // which visit of this node, from 1
	Attempt int   `json:"attempt"`           // from 1
	Retries []int `json:"retries,omitempty"` // uses of each retry rule in this visit
	// Call is the resolved call of a TOOL_CALL. It has no id: the driver derives that from the run's secret.
	Call *lattice.Call `json:"call,omitempty"`
	// Before is the boundary to which a lost call of class sprite goes back.
	Before    *lattice.Pair `json:"before,omitempty"`
	Losses    int           `json:"losses,omitempty"` // of this attempt
	Suspended *Suspension   `json:"suspended,omitempty"`
}

// Suspension is a call that emitted WAITING and has not been resumed yet.
type Suspension struct {
	CallID       string          `json:"call_id"`
	CheckpointID string          `json:"checkpoint_id"`
	Action       *lattice.Action `json:"action,omitempty"`
	By           string          `json:"by,omitempty"` // who approved the action, and when
	At           string          `json:"at,omitempty"`
}

// New is the state before the first fact, which must be lattice.RunStarted for the same run.
func New(run string) State {
	return State{
		RunID: run, Status: lattice.Pending,
		Vars: map[string]any{}, Tmp: map[string]any{}, Ctx: map[string]any{},
		Visits: map[string]int{}, Traversals: map[string]int{},
		Pairs: map[string]lattice.Pair{}, Dirty: map[string]bool{},
	}
}

// Encode writes s as JSON; equal states give equal bytes.
func (s State) Encode() (json.RawMessage, error) { return ir.Marshal(s) }

// DecodeState reads what Encode wrote.
func DecodeState(raw json.RawMessage) (State, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var s State
	if err := d.Decode(&s); err != nil {
		return State{}, fmt.Errorf("decode run state: %w", err)
	}
	return s, nil
}

// clone copies everything that Step changes in place. Calls, waits and JSON values are replaced, never changed.
func (s State) clone() State {
	s.Visits, s.Traversals = maps.Clone(s.Visits), maps.Clone(s.Traversals)
	s.Pairs, s.Dirty = maps.Clone(s.Pairs), maps.Clone(s.Dirty)
	s.Pending, s.Waits = slices.Clone(s.Pending), slices.Clone(s.Waits)
	s.Started = nil
	if s.Visit != nil {
		v := *s.Visit
		v.Retries = slices.Clone(v.Retries)
		s.Visit = &v
	}
	return s
}

func (s *State) pending(id string) (lattice.Command, bool) {
	i := slices.IndexFunc(s.Pending, func(c lattice.Command) bool { return c.ID == id })
	if i < 0 {
		return lattice.Command{}, false
	}
	return s.Pending[i], true
}

func (s *State) wait(id string) (lattice.Wait, bool) {
	i := slices.IndexFunc(s.Waits, func(w lattice.Wait) bool { return w.ID == id })
	if i < 0 {
		return lattice.Wait{}, false
	}
	return s.Waits[i], true
}
