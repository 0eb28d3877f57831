package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// record is what the store keeps of a run, with its options read.
type record struct {
	store.RunRecord
	kept options
}

// options is what a record keeps for the leader. Begin is the run's first fact, for the case that a crash came between
// recording the run and appending it.
type options struct {
	api.Options
	Begin lattice.RunStarted `json:"begin"`
	// Pinned are the manifests of skills that are not ours, as they were when the run started.
	Pinned []json.RawMessage `json:"pinned,omitempty"`
	// Of a run that began with an answer: the run that had asked, and all answers so far.
	ResumedFrom string            `json:"resumed_from,omitempty"`
	Answers     map[string]string `json:"answers,omitempty"`
	// Fork is the first fact, in the place of Begin, of a run that goes on from another one.
	Fork *lattice.RunForked `json:"fork,omitempty"`
}

// records reads what the store keeps of runs. It holds no state of its own.
type records struct{ store *store.Store }

func readOptions(r store.RunRecord) (o options, err error) {
	if err := json.Unmarshal(r.Options, &o); err != nil {
		return o, fmt.Errorf("load run %s: read its options: %w", r.ID, err)
	}
	return o, nil
}

// load reads the record of a run.
func (rs *records) load(id string) (record, error) {
	r, err := rs.store.Run(id)
	if err != nil {
		return record{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := readOptions(r)
	return record{RunRecord: r, kept: kept}, err
}

// loadBrief is record without the run's program, which is the largest part of it.
func (rs *records) loadBrief(id string) (record, error) {
	r, err := rs.store.Record(id)
	if err != nil {
		return record{}, fmt.Errorf("load run %s: %w", id, err)
	}
	kept, err := readOptions(r)
	return record{RunRecord: r, kept: kept}, err
}

// resolve finds the run that a user means: an id, a unique prefix of one, or "" for the last run.
func (rs *records) resolve(id string) (string, error) {
	find := func() (store.RunRecord, error) { return rs.store.Run(id) }
	if id == "" {
		find = rs.store.Last
	}
	found, err := find()
	switch {
	case errors.Is(err, store.ErrNotFound) && id == "":
		return "", fault.NotFound("no_runs", "there are no runs yet").WithHint("lattice run FLOW")
	case errors.Is(err, store.ErrNotFound):
		return "", fault.NotFound("run_not_found", "there is no run %s", id).WithHint("lattice runs")
	case errors.Is(err, store.ErrAmbiguous):
		return "", fault.BadInput("run_ambiguous", "%v", err).WithHint("write more of the id; lattice runs lists them")
	}
	return found.ID, err
}

// findStarted finds the run that was started with the same key: its asker has not heard of it.
func (rs *records) findStarted(key string) (string, error) {
	if key == "" {
		return "", nil
	}
	if !startKey.MatchString(key) {
		return "", fault.BadInput("bad_request", "the key of a run is 16 letters and digits")
	}
	switch _, err := rs.store.Run(runID(key)); {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for run %s: %w", runID(key), err)
	}
	return runID(key), nil
}

var startKey = regexp.MustCompile(`^[a-z2-7]{16}$`)

func runID(key string) string { return "run_" + key }

// list returns the records of runs; of open ones there may be more than were asked for.
func (rs *records) list(which api.RunList) ([]store.RunRecord, error) {
	if which.WorkItem != "" {
		return rs.listFor(which)
	}
	if !which.Open {
		return rs.store.Recent(which.Before, which.Limit)
	}
	open, err := rs.store.Open()
	if err != nil || which.Before == "" {
		return open, err
	}
	before, err := rs.store.Record(which.Before)
	return slices.DeleteFunc(open, func(r store.RunRecord) bool { return !r.Created.Before(before.Created) }), err
}

// listFor returns the records of the runs for a work item.
func (rs *records) listFor(which api.RunList) ([]store.RunRecord, error) {
	all, err := rs.store.OfWorkItem(which.WorkItem)
	if i := slices.IndexFunc(all, func(r store.RunRecord) bool { return r.ID == which.Before }); i >= 0 {
		all = all[i+1:]
	}
	return all, err
}

// Entries yields a run's facts and events after a position.
func (rs *records) Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := rs.resolve(id)
	if err != nil {
		return err
	}
	const page = 512
	for {
		entries, err := rs.store.Entries(id, after, page)
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

// Outline yields a run's facts after a position and the events next to them, however many there are between.
func (rs *records) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	id, err := rs.resolve(id)
	if err != nil {
		return err
	}
	entries, err := rs.store.Outline(id, after, near)
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

// near is how much of what is said next to a fact an outline tells.
const near = 32

// findAnswer is the run's last answer, or the one to the wait that is named; nil when there is none.
func (rs *records) findAnswer(id, wait string) (*lattice.Answered, error) {
	history, err := rs.store.Load(id)
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

// wasRewoundTo reports whether the last rewind of a run went to a moment of that name.
func (rs *records) wasRewoundTo(id, spec string) (bool, error) {
	history, err := rs.store.Load(id)
	if err != nil {
		return false, fmt.Errorf("load run %s: %w", id, err)
	}
	facts := history.Facts
	node, _, _ := strings.Cut(spec, "#")
	for i := len(facts) - 1; i >= 0; i-- {
		fact, err := lattice.DecodeFact(facts[i].Type, facts[i].Body)
		if err != nil {
			return false, err
		}
		if back, ok := fact.(lattice.Rewound); ok {
			return back.Moment.Node == node, nil
		}
	}
	return false, errors.New("a run of a later epoch was never rewound")
}

// readHistory reads a run with its program and its facts.
func (rs *records) readHistory(id string) (past, store.History, error) {
	rec, err := rs.load(id)
	if err != nil {
		return past{}, store.History{}, err
	}
	program, findings := ir.Parse(rec.Program, rec.kept.lookup)
	if program == nil {
		return past{}, store.History{}, fmt.Errorf("load run %s: its program is not valid any more: %s", id, findings[0].Message)
	}
	h, err := rs.store.Load(id)
	if err != nil {
		return past{}, store.History{}, fmt.Errorf("load run %s: %w", id, err)
	}
	return past{record: rec, program: program, facts: h.Facts}, h, nil
}

// fold folds all facts of a run.
func (rs *records) fold(id string) (at driver.Standing, begun bool, err error) {
	p, h, err := rs.readHistory(id)
	if err != nil {
		return at, false, err
	}
	f, err := history(h).Fold(p.program, id)
	if err != nil {
		return at, false, fmt.Errorf("load run %s: %w", id, err)
	}
	return driver.Standing{State: f.State, Seq: h.Last, At: f.At}, true, nil
}

// history is a run's history as the engine takes it.
func history(h store.History) replay.History {
	return replay.History{Facts: h.Facts, Snapshot: h.State.Body, SnapshotSeq: h.State.Seq, Last: h.Last, EventBytes: h.EventBytes}
}

// agentEnv returns the names of the variables that agents of a run get.
func (rs *records) agentEnv(run string) []string {
	rec, err := rs.load(run)
	if err != nil {
		return nil // a run that cannot be read pushes nothing either
	}
	return rec.kept.AgentEnv
}

// lookup finds a skill as it was when the run started.
func (o options) lookup(name string) (manifests.Skill, bool) {
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
