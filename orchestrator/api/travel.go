package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Travel is the part of Service for the past of runs. A moment is named NODE, for the last time that the node began, NODE#N
// for the N-th, or @N for the end of the N-th turn of the run's agents.
type Travel interface {
	// Moments lists where a run's nodes began, oldest first, and whether the run can be taken back there.
	Moments(ctx context.Context, id string) ([]Moment, error)
	// Turns lists the turns of a run's agents, oldest first, and whether the run can be taken back there.
	Turns(ctx context.Context, id string) ([]Turn, error)
	// ValuesAt returns the values that a run had at a moment; "" is the present.
	ValuesAt(ctx context.Context, id, at string) (RunValues, error)
	// Rewind takes a run that is not driven back to a moment, with its files, and drives it from there.
	Rewind(ctx context.Context, id string, r RewindRequest) (RunView, error)
	// Fork starts runs that go on from a moment of another one, each in a copy of its sprite.
	Fork(ctx context.Context, id string, r ForkRequest) ([]RunView, error)
	// Compare returns the differences between two moments of a run; "" is its beginning, then its present.
	Compare(ctx context.Context, id, from, to string) (Comparison, error)
	// Replay tells a run again by its journal alone; nil for the journal that is stored.
	Replay(ctx context.Context, id string, journal []lattice.Entry) (Replay, error)
}

// Moment is where a node of a run's present course was about to begin.
type Moment struct {
	Node  string      `json:"node"`
	Visit int         `json:"visit"`
	Seq   lattice.Seq `json:"seq"`
	At    time.Time   `json:"at"`
	// Where the files of the moment are: at a checkpoint, unchanged in the sprite, or lost; none without a sprite.
	Files      string `json:"files"`
	Checkpoint string `json:"checkpoint_id,omitempty"`
	Available  bool   `json:"available"`
	Why        string `json:"why,omitempty"` // why it is not
	// Effects on the world since, which going back does not undo.
	Effects []string `json:"effects,omitempty"`
}

// Turn is the end of a turn of an agent: an answer of its model, with the results of the tools that it used. Its checkpoint
// holds the files and the agent's session; the other members of the moment are those of the agent's step.
type Turn struct {
	Turn int `json:"turn"` // of the run, from 1
	Moment
	Agent        string `json:"agent"`
	Tool         string `json:"tool"`        // that the agent used last
	Milliseconds int64  `json:"duration_ms"` // that the agent was stopped for the checkpoint
}

// RunValues holds the input and the variables of a run at a moment, which a fork can change.
type RunValues struct {
	RunID string                     `json:"run_id"`
	In    map[string]json.RawMessage `json:"in"`
	Vars  map[string]json.RawMessage `json:"vars"`
}

// RewindRequest is the body of a rewind.
type RewindRequest struct {
	To string `json:"to"`
	// Epoch is the epoch that the asker saw; a request that comes twice rewinds once.
	Epoch         int    `json:"epoch"`
	AcrossEffects bool   `json:"across_effects,omitempty"`
	By            string `json:"by"`
	Detach        bool   `json:"detach,omitempty"`
	// Models are those that the run asks from then on; nil leaves them as they are.
	Models *lattice.Models `json:"models,omitempty"`
	Values
}

// ForkRequest is the body of a fork. Key, drawn by the asker, makes a request that comes twice fork once.
type ForkRequest struct {
	Key    string               `json:"key"`
	At     string               `json:"at"`
	N      int                  `json:"n"`
	Set    []lattice.Assignment `json:"set,omitempty"`
	Detach bool                 `json:"detach,omitempty"`
	// Models are those that the runs ask; nil has them ask those of the run that they go on from.
	Models *lattice.Models `json:"models,omitempty"`
	Values
}

// Comparison holds the changes between two moments of a run.
type Comparison struct {
	RunID string                `json:"run_id"`
	From  Moment                `json:"from"`
	To    *Moment               `json:"to"` // null for the present
	Vars  []difference.Variable `json:"vars"`
	Files []sprites.Change      `json:"files"`
	Note  string                `json:"note,omitempty"` // why files are not compared
}

// Replay is the outcome of replaying the journal of a run.
type Replay struct {
	RunID    string      `json:"run_id"`
	OK       bool        `json:"ok"`
	Facts    int         `json:"facts"` // replayed
	StateSum string      `json:"state_sum,omitempty"`
	Diverged *Divergence `json:"diverged,omitempty"`
}

// Divergence is the first place where a journal does not lead to the recorded state.
type Divergence struct {
	Seq     lattice.Seq `json:"seq"`
	Fact    string      `json:"fact,omitempty"`
	Node    string      `json:"node,omitempty"`
	What    string      `json:"what"` // program | fact | missing | extra | order | call_id | edge | state | snapshot
	Message string      `json:"message"`
	Want    string      `json:"want,omitempty"` // as the journal says
	Got     string      `json:"got,omitempty"`  // as the program gives
}

// maxJournal bounds a journal that is sent for a replay.
const maxJournal = 256 << 20

func travelRoutes(s Travel) []route.Route {
	return []route.Route{
		route.ListAll("/runs/{id}/moments", "List where a run's nodes began, and whether the run can be taken back there.", route.After, Moment.String,
			func(r *http.Request) ([]Moment, error) { return s.Moments(r.Context(), route.ID(r)) }),
		route.ListAll("/runs/{id}/turns", "List the turns of a run's agents, and whether the run can be taken back there.", route.After, func(v Turn) string { return strconv.Itoa(v.Turn) },
			func(r *http.Request) ([]Turn, error) { return s.Turns(r.Context(), route.ID(r)) }),
		route.Get("/runs/{id}/values", "Return the input and the variables of a run at a moment.",
			func(r *http.Request) (RunValues, error) {
				return s.ValuesAt(r.Context(), route.ID(r), r.FormValue("at"))
			},
			route.String("at", "a moment, NODE, NODE#VISIT or @TURN; by default the present")),
		route.Post(route.Admin, "/runs/{id}/rewind", "Take a run back to a moment, with its files, and drive it from there.",
			func(r *http.Request, in RewindRequest) (RunView, error) {
				in.By = route.Requester(r.Context(), in.By)
				return s.Rewind(r.Context(), route.ID(r), in)
			}),
		route.AcceptKey(route.Post(route.Admin, "/runs/{id}/fork", "Start runs that go on from a moment of a run, each in a copy of its sprite.",
			func(r *http.Request, in ForkRequest) ([]RunView, error) {
				in.Key = route.Key(r, in.Key)
				return s.Fork(r.Context(), route.ID(r), in)
			})),
		route.Get("/runs/{id}/compare", "Return the differences between two moments of a run.",
			func(r *http.Request) (Comparison, error) {
				return s.Compare(r.Context(), route.ID(r), r.FormValue("from"), r.FormValue("to"))
			}, momentParams...),
		route.Raw[Replay](route.Viewer, http.MethodPost, "/runs/{id}/replay", "Replay a run by its journal alone, or by the journal in the body.", exchange.MediaJSON,
			func(w http.ResponseWriter, r *http.Request) {
				var journal []lattice.Entry
				if exchange.DecodeUpTo(w, r, &journal, maxJournal) {
					out, err := s.Replay(r.Context(), route.ID(r), journal)
					exchange.Reply(w, out, err)
				}
			}),
	}
}

var momentParams = []route.Param{route.String("from", "a moment, NODE, NODE#VISIT or @TURN; by default the beginning"), route.String("to", "another one; by default the present")}

// Moments lists where a run's nodes began.
func (c TravelCalls) Moments(ctx context.Context, id string) ([]Moment, error) {
	return callList[Moment](ctx, c.connection, runPath(id, "moments"), nil)
}

// Turns lists the turns of a run's agents.
func (c TravelCalls) Turns(ctx context.Context, id string) ([]Turn, error) {
	return callList[Turn](ctx, c.connection, runPath(id, "turns"), nil)
}

// Rewind takes a run back to a moment.
func (c TravelCalls) Rewind(ctx context.Context, id string, r RewindRequest) (RunView, error) {
	return call[RunView](ctx, c.connection, "POST", runPath(id, "rewind"), nil, r)
}

// Fork starts runs that go on from a moment of another one.
func (c TravelCalls) Fork(ctx context.Context, id string, r ForkRequest) ([]RunView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[[]RunView](ctx, c.connection, "POST", runPath(id, "fork"), nil, r)
}

// Compare returns the differences between two moments of a run.
func (c TravelCalls) Compare(ctx context.Context, id, from, to string) (Comparison, error) {
	return call[Comparison](ctx, c.connection, "GET", runPath(id, "compare"), url.Values{"from": {from}, "to": {to}}, nil)
}

// Replay tells a run again by its journal alone.
func (c TravelCalls) Replay(ctx context.Context, id string, journal []lattice.Entry) (Replay, error) {
	return call[Replay](ctx, c.connection, "POST", runPath(id, "replay"), nil, journal)
}
