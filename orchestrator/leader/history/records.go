package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

func ReadOptions(r store.RunRecord) (o Options, err error) {
	if err := json.Unmarshal(r.Options, &o); err != nil {
		return o, fmt.Errorf("load run %s: read its options: %w", r.ID, err)
	}
	return o, nil
}

// Load reads the record of a run.
func (rs *Records) Load(id string) (Run, error) {
	r, err := rs.Store.Run(id)
	if err != nil {
		return Run{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := ReadOptions(r)
	return Run{RunRecord: r, Kept: kept}, err
}

// LoadBrief is Load without the program of the run, which is the largest part of the record.
func (rs *Records) LoadBrief(id string) (Run, error) {
	r, err := rs.Store.Record(id)
	if err != nil {
		return Run{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := ReadOptions(r)
	return Run{RunRecord: r, Kept: kept}, err
}

// Resolve returns the id of the run that a user named: by its id, a unique prefix of it, or "" for the last run.
func (rs *Records) Resolve(id string) (string, error) {
	if id == "" {
		switch last, err := rs.Store.Recent("", 1); {
		case err != nil:
			return "", err
		case len(last) == 0:
			return "", fault.NotFound("no_runs", "there are no runs yet").WithHint("lattice run FLOW")
		default:
			return last[0].ID, nil
		}
	}
	found, err := rs.Store.Find(id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", fault.NotFound("run_not_found", "there is no run %s", id).WithHint("lattice runs")
	case errors.Is(err, store.ErrAmbiguous):
		return "", fault.BadInput("run_ambiguous", "%v", err).WithHint("write more of the id; lattice runs lists them")
	}
	return found, err
}

// FindStarted returns the run that was started with the same key, "" if there is none: the client may not have received the
// reply.
func (rs *Records) FindStarted(key string) (string, error) {
	if key == "" {
		return "", nil
	}
	if !StartKey().MatchString(key) {
		return "", fault.BadInput("bad_request", "the key of a run is 16 letters and digits")
	}
	switch _, err := rs.Store.Find(RunID(key)); {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for run %s: %w", RunID(key), err)
	}
	return RunID(key), nil
}

var StartKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z2-7]{16}$`) })

func RunID(key string) string { return "run_" + key }

// List returns the records of runs. For open runs, and for those of a work item, it may return more than the limit and other flows.
func (rs *Records) List(which api.RunList) ([]store.RunRecord, error) {
	switch {
	case which.WorkItem != "":
		return rs.listFor(which)
	case which.Flow != "" && !which.Open:
		return rs.Store.OfFlow(which.Flow, which.Before, which.Limit)
	case !which.Open:
		return rs.Store.Recent(which.Before, which.Limit)
	}
	open, err := rs.Store.Open()
	if err != nil || which.Before == "" {
		return open, err
	}
	before, err := rs.Store.Record(which.Before)
	return slices.DeleteFunc(open, func(r store.RunRecord) bool { return !r.Created.Before(before.Created) }), err
}

// listFor returns the records of the runs for a work item.
func (rs *Records) listFor(which api.RunList) ([]store.RunRecord, error) {
	all, err := rs.Store.OfWorkItem(which.WorkItem)
	if i := slices.IndexFunc(all, func(r store.RunRecord) bool { return r.ID == which.Before }); i >= 0 {
		all = all[i+1:]
	}
	return all, err
}

// Entries yields a run's facts and events after a position.
func (rs *Records) Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := rs.Resolve(id)
	if err != nil {
		return err
	}
	const page = 512
	for {
		entries, err := rs.Store.Entries(id, after, page)
		if err != nil {
			return fmt.Errorf("read entries of run %s: %w", id, err)
		}
		for _, e := range entries {
			if err := yield(e); err != nil {
				return err
			}
			after = e.Seq
		}
		if len(entries) < page {
			return ctx.Err()
		}
	}
}

// FindStatement returns the newest signed statement of a run about a commit, or the one with a digest if that is not "".
func (rs *Records) FindStatement(ctx context.Context, id, commit, digest string) (s lattice.Attested, ok bool, err error) {
	err = rs.Outline(ctx, id, 0, func(e lattice.Entry) error {
		if e.Kind != lattice.EntryFact || e.Type != s.FactType() {
			return nil
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return err
		}
		if f, is := fact.(lattice.Attested); is && f.Commit == commit && (digest == "" || f.Statement == digest) {
			s, ok = f, true
		}
		return nil
	})
	return s, ok, err
}

// Outline yields a run's facts after a position and the events next to them, however many there are between.
func (rs *Records) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := rs.Resolve(id)
	if err != nil {
		return err
	}
	entries, err := rs.Store.Outline(id, after, near)
	if err != nil {
		return fmt.Errorf("read entries of run %s: %w", id, err)
	}
	for _, e := range entries {
		if err := yield(e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// near is the number of events next to each fact that an outline holds.
const near = 32

// FindAnswer returns the last answer to a wait, or of the run if wait is ""; nil if there is none.
func (rs *Records) FindAnswer(id, wait string) (*lattice.Answered, error) {
	history, err := rs.Store.Load(id)
	if err != nil {
		return nil, fmt.Errorf("read facts of run %s: %w", id, err)
	}
	var last *lattice.Answered
	for _, e := range history.Facts {
		if e.Type != (lattice.Answered{}).FactType() {
			continue
		}
		f, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, err
		}
		if a := f.(lattice.Answered); wait == "" || a.WaitID == wait {
			last = &a
		}
	}
	return last, nil
}

// WasRewoundTo reports whether the last rewind of a run went to a moment of the node, or to the turn, that spec names.
func (rs *Records) WasRewoundTo(id, spec string) (bool, error) {
	history, err := rs.Store.Load(id)
	if err != nil {
		return false, fmt.Errorf("load run %s: %w", id, err)
	}
	facts := history.Facts
	name, _, _ := cutVisit(spec)
	turn, err := rs.findTurn(id, spec)
	if err != nil {
		return false, err
	}
	for i := len(facts) - 1; i >= 0; i-- {
		fact, err := lattice.DecodeFact(facts[i].Type, facts[i].Body)
		if err != nil {
			return false, err
		}
		if back, ok := fact.(lattice.Rewound); ok {
			return back.Moment.Name() == name || back.Moment.Node == spec || turn != nil && back.Pair != nil && back.Pair.CheckpointID == turn.CheckpointID, nil
		}
	}
	return false, errors.New("a run of a later epoch was never rewound")
}

// ReadHistory reads a run with its program and its facts.
func (rs *Records) ReadHistory(id string) (Past, store.History, error) {
	rec, err := rs.Load(id)
	if err != nil {
		return Past{}, store.History{}, err
	}
	program, err := rs.Parse(rec)
	if err != nil {
		return Past{}, store.History{}, fmt.Errorf("load run %s: %w", id, err)
	}
	h, err := rs.Store.Load(id)
	if err != nil {
		return Past{}, store.History{}, fmt.Errorf("load run %s: %w", id, err)
	}
	return Past{Run: rec, Parsed: program, Facts: h.Facts}, h, nil
}

// Parse returns the program of a run. Runs with the same document and the same skills share it.
func (rs *Records) Parse(r Run) (*ir.Program, error) {
	return rs.shareProgram(r.Program, r.Kept.Pinned, func() (*ir.Program, error) {
		program, findings := check.Parse(r.Program, r.Kept.Lookup)
		if program == nil {
			return nil, fmt.Errorf("its program is not valid any more: %s", findings[0].Message)
		}
		return program, nil
	})
}

// Share returns the program of other runs with the same document and the same skills, or the given one, which is shared from now on.
func (rs *Records) Share(program *ir.Program, document json.RawMessage, pinned []json.RawMessage) *ir.Program {
	program, _ = rs.shareProgram(document, pinned, func() (*ir.Program, error) { return program, nil })
	return program
}

func (rs *Records) shareProgram(document json.RawMessage, pinned []json.RawMessage, parse func() (*ir.Program, error)) (*ir.Program, error) {
	input := [][]byte{document}
	for _, skill := range pinned {
		input = append(input, skill)
	}
	return rs.programs.Do(parse, input...)
}

// foldRun folds all facts of a run.
func (rs *Records) foldRun(id string) (at driver.Standing, begun bool, err error) {
	p, h, err := rs.ReadHistory(id)
	if err != nil {
		return at, false, err
	}
	f, err := NewHistory(h).Fold(p.Parsed, id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	return driver.Standing{State: f.State, Seq: h.Last, At: f.At}, true, nil
}

// NewHistory converts a history of the store to one of the engine.
func NewHistory(h store.History) replay.History {
	return replay.History{Facts: h.Facts, Snapshot: h.State.Body, SnapshotSeq: h.State.Seq, Last: h.Last, EventBytes: h.EventBytes}
}

// AgentEnv returns the names of the variables that agents of a run get.
func (rs *Records) AgentEnv(run string) []string {
	rec, err := rs.Load(run)
	if err != nil {
		return nil // a run that cannot be read pushes nothing either
	}
	return rec.Kept.AgentEnv
}

// Lookup finds a skill as it was when the run started.
func (o Options) Lookup(name string) (manifests.Skill, bool) {
	if s, ok := manifests.Lookup(name); ok {
		return s, true
	}
	for _, raw := range o.Pinned {
		if s, err := manifests.ParseSkill(raw); err == nil && s.Name == name {
			return s, true
		}
	}
	return manifests.Skill{}, false
}
