package drive

import (
	"context"
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Engine decides, outside of this process, when the commands of all runs are performed. Without one, each is performed as soon as
// it is pending.
type Engine interface {
	driver.Scheduler
	// ServeInBackground has the runs scheduled until stop is called, after their drives have ended.
	ServeInBackground(runs *Scheduled) (stop func(), err error)
}

// Unreachable returns the error of an engine whose server cannot be used.
func Unreachable(address string, err error) error {
	return fault.Network("engine_unreachable", "the Temporal server at %s cannot be used: %v", address, err).WithHint("look whether it runs and [engine] in the settings names it and its namespace; without [engine], runs go on here")
}

// QueueTaken returns the error of an engine whose task queue belongs to another store. holder is the workflow that says so.
func QueueTaken(queue, holder string) error {
	return fault.Unsafe("engine_queue_taken", "the task queue %s of the Temporal server belongs to another store", queue).WithHint("name another queue in [engine]; if that store is gone, or this one was moved here: temporal workflow terminate --workflow-id %s", holder)
}

// NoBlobs returns the error of an engine that cannot use the bucket for large values.
func NoBlobs(err error) error {
	return fault.Network("engine_blobs_unreachable", "%v", err).WithHint("look whether blobs of [engine] names a bucket that is there, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may use it")
}

// Scheduled are the runs of a leader, for its Engine.
type Scheduled struct {
	Drives  *Drives
	Records *history.Records
}

// Drive has a run driven that is to go on, unless it is, and returns its runner. It fails with [driver.PutDown] if the run was put down here.
func (s *Scheduled) Drive(ctx context.Context, id string) (*driver.Runner, error) {
	r, err := s.Drives.LoadBegun(ctx, id)
	if err != nil {
		return nil, err
	}
	s.Drives.mu.Lock()
	down, stopped := r.done == nil && r.stopped != nil, r.stopped
	s.Drives.mu.Unlock()
	if down {
		return nil, &driver.PutDown{Drive: r.Runner.LastDrive(), Err: stopped}
	}
	return r.Runner, s.Drives.Drive(ctx, id)
}

// Find returns the runner of a run, which may be at rest.
func (s *Scheduled) Find(ctx context.Context, id string) (*driver.Runner, error) {
	r, err := s.Drives.LoadBegun(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.Runner, nil
}

// Program is the program of a run with the manifests of its skills, and that for which people look for runs.
type Program struct {
	Document     json.RawMessage
	Skills       map[string]manifests.Skill
	Repo, Intent string
}

// Program returns the program of a run.
func (s *Scheduled) Program(id string) (Program, error) {
	p, _, err := s.Records.ReadHistory(id)
	if err != nil {
		return Program{}, err
	}
	return Program{p.Program, p.Parsed.Tools, p.Kept.Repo, p.Kept.Intent}, nil
}

// ReadFacts returns the facts of a run in the journal, from the given one on.
func (s *Scheduled) ReadFacts(id string, from int) ([]driver.Fact, error) {
	h, err := s.Records.Store.Load(id)
	if err != nil {
		return nil, err
	}
	return FactsFrom(h.Facts, from), nil
}

// FactsFrom returns the facts behind the first from ones.
func FactsFrom(facts []lattice.Entry, from int) []driver.Fact {
	var out []driver.Fact
	for _, e := range facts[min(from, len(facts)):] {
		out = append(out, driver.Fact{Type: e.Type, Body: e.Body})
	}
	return out
}

// ListOpen returns the ids of the runs that have not ended.
func (s *Scheduled) ListOpen() ([]string, error) {
	open, err := s.Records.Store.Open()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range open {
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// FindDrive returns the number of the drive of a run that is driven, 0 if it is not.
func (s *Scheduled) FindDrive(id string) int64 {
	driven, _ := s.Drives.IsDriven(id)
	r := s.Drives.Runner(id)
	if !driven || r == nil {
		return 0
	}
	return r.LastDrive()
}

// Leaves reports whether this leader ends while another is to go on with its runs.
func (s *Scheduled) Leaves() bool {
	return s.Drives.serving && s.Drives.IsClosing()
}
