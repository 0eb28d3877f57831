package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Travel is the part of Service for the past of runs. A moment is named NODE, for the last time that the node began, or
// NODE#N for the N-th.
type Travel interface {
	// Moments lists where a run's nodes began, oldest first, and whether the run can be taken back there.
	Moments(ctx context.Context, id string) ([]Moment, error)
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
	RunID string           `json:"run_id"`
	From  Moment           `json:"from"`
	To    *Moment          `json:"to"` // null for the present
	Vars  []VarChange      `json:"vars"`
	Files []sprites.Change `json:"files"`
	Note  string           `json:"note,omitempty"` // why files are not compared
}

// VarChange is a variable that differs. A member that is missing did not exist.
type VarChange struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
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

func routeTravel(mux *http.ServeMux, s Travel) {
	mux.HandleFunc("GET /v1/run/moments", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Moments(r.Context(), r.FormValue("id"))
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/run/rewind", func(w http.ResponseWriter, r *http.Request) {
		var in RewindRequest
		if read(w, r, &in) {
			in.By = requester(r.Context(), in.By)
			out, err := s.Rewind(r.Context(), r.FormValue("id"), in)
			reply(w, out, err)
		}
	})
	mux.HandleFunc("POST /v1/run/fork", func(w http.ResponseWriter, r *http.Request) {
		var in ForkRequest
		if read(w, r, &in) {
			out, err := s.Fork(r.Context(), r.FormValue("id"), in)
			reply(w, out, err)
		}
	})
	mux.HandleFunc("GET /v1/run/compare", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Compare(r.Context(), r.FormValue("id"), r.FormValue("from"), r.FormValue("to"))
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/run/replay", func(w http.ResponseWriter, r *http.Request) {
		var journal []lattice.Entry
		if decodeUpTo(w, r, &journal, maxJournal) {
			out, err := s.Replay(r.Context(), r.FormValue("id"), journal)
			reply(w, out, err)
		}
	})
}

// Moments lists where a run's nodes began.
func (c *Client) Moments(ctx context.Context, id string) ([]Moment, error) {
	return call[[]Moment](ctx, c, "GET", "/v1/run/moments", url.Values{"id": {id}}, nil)
}

// Rewind takes a run back to a moment.
func (c *Client) Rewind(ctx context.Context, id string, r RewindRequest) (RunView, error) {
	return call[RunView](ctx, c, "POST", "/v1/run/rewind", url.Values{"id": {id}}, r)
}

// Fork starts runs that go on from a moment of another one.
func (c *Client) Fork(ctx context.Context, id string, r ForkRequest) ([]RunView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[[]RunView](ctx, c, "POST", "/v1/run/fork", url.Values{"id": {id}}, r)
}

// Compare returns the differences between two moments of a run.
func (c *Client) Compare(ctx context.Context, id, from, to string) (Comparison, error) {
	return call[Comparison](ctx, c, "GET", "/v1/run/compare", url.Values{"id": {id}, "from": {from}, "to": {to}}, nil)
}

// Replay tells a run again by its journal alone.
func (c *Client) Replay(ctx context.Context, id string, journal []lattice.Entry) (Replay, error) {
	return call[Replay](ctx, c, "POST", "/v1/run/replay", url.Values{"id": {id}}, journal)
}
