package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// States reads the states of runs, from the runner of a loaded run, else from the store. It is safe for concurrent use and
// holds no state of its own.
type States struct {
	Store   *store.Store
	Records *Records
	Live    interface {
		Runner(id string) *driver.Runner // nil when the run is not loaded
	}
	Disk func() string // "" when unknown
}

// Read returns the state of a run; begun is false before the first fact. If facts follow the last snapshot, because a
// process was killed, Read folds them.
func (s *States) Read(id string) (at driver.Standing, begun bool, err error) {
	if r := s.Live.Runner(id); r != nil && !r.Broken() {
		at = r.Standing()
		return at, at.State.Status != lattice.Pending, nil
	}
	snapshot, found, err := s.Store.State(id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	behind, err := s.Store.FactBehind(id, snapshot.Seq)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	if behind {
		return s.Records.foldRun(id)
	}
	if !found {
		return at, false, nil
	}
	at = driver.Standing{Seq: snapshot.Seq, At: snapshot.At}
	if at.State, err = runstate.Decode(snapshot.Body); err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	return at, true, nil
}

// Encode returns the state of a run as JSON, nil before the first fact.
func (s *States) Encode(id string) (json.RawMessage, error) {
	at, begun, err := s.Read(id)
	if err != nil || !begun {
		return nil, err
	}
	return at.State.Encode()
}

// Rest is the part of a run's snapshot that says where the run stands.
type Rest struct {
	Status  lattice.RunStatus `json:"status"`
	Waits   []lattice.Wait    `json:"waits"`
	Failure *expr.Failure     `json:"failure"`
}

// ReadRest reads the snapshot in e. It decodes no values of the run.
func ReadRest(e lattice.Entry) (r Rest, err error) {
	if err := json.Unmarshal(e.Body, &r); err != nil {
		return r, fmt.Errorf("read where run %s stands: %w", e.Run, err)
	}
	return r, nil
}

// EncodeUsers returns the states, as JSON, of all runs that may name a checkpoint of a sprite: those whose sprite it is, and
// those that have not ended, which may use a copy of it.
func (s *States) EncodeUsers(sprite string) ([]json.RawMessage, error) {
	users, err := s.Store.OfSprite(sprite)
	if err != nil {
		return nil, err
	}
	open, err := s.Store.Open()
	if err != nil {
		return nil, err
	}
	var states []json.RawMessage
	seen := map[string]bool{}
	for _, r := range append(users, open...) {
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		state, err := s.Encode(r.ID)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// FindNext returns the run that continues run id after the answer to a legacy question, or nil.
func (s *States) FindNext(id string) (*runstate.Next, error) {
	at, _, err := s.Read(id)
	return at.State.Next, err
}

// CheckSpriteFree refuses a sprite that belongs to another run that has not ended.
func (s *States) CheckSpriteFree(id, sprite string) error {
	if sprite == "" {
		return nil
	}
	open, err := s.Store.Open()
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Sprite != sprite || r.ID == id {
			continue
		}
		at, begun, err := s.Read(r.ID)
		if err != nil {
			return err
		}
		status := lattice.Pending
		if begun {
			status = at.State.Status
		}
		if !status.Ended() {
			return fault.Busy("sprite_busy", "sprite %s belongs to %s, which is %s", sprite, r.ID, status).WithHint("lattice cancel %s", r.ID)
		}
	}
	return nil
}

// ReadPast reads the past of a run from the store, without requests to the host.
func (s *States) ReadPast(id string) (Past, error) {
	p, _, err := s.Records.ReadHistory(id)
	if err != nil {
		return Past{}, err
	}
	if p.Points, err = replay.Points(p.Parsed, id, p.Facts); err != nil || p.Sprite == "" || p.Kept.OwnSprite {
		return p, err
	}
	return p, s.MarkShared(p)
}

// MarkShared marks the moments that have their files in the sprite as lost if another run has used the sprite since.
func (s *States) MarkShared(p Past) error {
	all, err := s.Store.OfSprite(p.Sprite)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for _, r := range all { // newest first: most often one is enough
		if !slices.ContainsFunc(p.Points, func(pt replay.Point) bool { return pt.Files == replay.FilesUnchanged }) {
			return nil
		}
		if r.ID == p.ID {
			continue
		}
		other, begun, err := s.Read(r.ID)
		if err != nil {
			return err
		}
		last := r.Created
		if begun {
			last = other.At
		}
		p.Lose(last, r.ID+" has had sprite "+p.Sprite+" since")
	}
	return nil
}

// MarkTorn marks the moments that have their files in the sprite as lost if the machine or its disk was restarted since.
func (s *States) MarkTorn(p Past) error {
	at, begun, err := s.Read(p.ID)
	if err != nil || !begun {
		return err
	}
	if disk := s.Disk(); at.State.Disk == "" || disk == "" || at.State.Disk == disk || len(p.Facts) == 0 {
		return nil
	}
	for i, pt := range p.Points {
		if pt.Files == replay.FilesUnchanged {
			p.Points[i].Files = replay.FilesLost
			p.Points[i].Lost = "the machine or its disk was restarted since, and the files may be torn"
		}
	}
	return nil
}

// ListIssued returns the ids of the calls that a run has made. It reads the calls in progress before the facts, so that a call
// that ends between the two reads is in both.
func (s *States) ListIssued(id string) map[string]bool {
	ids := s.listPending(id)
	history, err := s.Store.Load(id)
	if err != nil {
		return ids
	}
	for _, e := range history.Facts {
		var f struct {
			CallID string `json:"call_id"`
		}
		if json.Unmarshal(e.Body, &f) == nil && f.CallID != "" {
			ids[f.CallID] = true
		}
	}
	return ids
}

// listPending returns the ids of the calls in progress.
func (s *States) listPending(id string) map[string]bool {
	ids := map[string]bool{}
	rec, err := s.Store.Run(id)
	if err != nil {
		return ids
	}
	at, _, err := s.Read(id)
	if err != nil {
		return ids
	}
	for _, c := range at.State.Pending {
		if c.Call != nil {
			ids[lattice.CallID(rec.Secret, *c.Call)] = true
		}
	}
	return ids
}

// FindRepo returns the repository that a run was seeded from and the name of the run's branch there, without "lattice/".
func (s *States) FindRepo(id string) (spec, branch string, ok bool) {
	rec, err := s.Records.Load(id)
	if err != nil || rec.Kept.Repo == "" {
		return "", "", false
	}
	at, _, err := s.Read(id)
	if err != nil {
		return rec.Kept.Repo, id, true
	}
	repo, _ := at.State.Ctx["repo"].(map[string]any)
	push, _ := repo["push_branch"].(string)
	return rec.Kept.Repo, cmp.Or(OwnBranch(push, id), id), true
}
