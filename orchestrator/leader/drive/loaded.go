package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
)

// Loaded is a loaded run.
type Loaded struct {
	Runner  *driver.Runner
	begin   lattice.RunStarted // its first fact
	fork    *lattice.RunForked // the same, of a run that goes on from another one
	models  *lattice.Models    // that it asks, nil for the leader's; guarded by mu
	cancel  func()             // stops the drive
	done    chan struct{}      // closed when the drive has ended; nil while the run is not driven
	stopped error              // why the last drive ended

	detached bool // continues without a client that follows it
	timed    int  // waits with a timer: usually one, for a moment two
	yielded  bool // stopped while a handover is tried
}

// load returns a run, from memory or from the store. It replaces a runner whose append failed.
func (d *Drives) load(id string) (*Loaded, error) {
	d.loading.Lock()
	defer d.loading.Unlock()
	d.mu.Lock()
	r, closing := d.loaded[id], d.closing
	usable := r != nil && (r.done != nil || !r.Runner.Broken())
	d.mu.Unlock()
	switch {
	case closing:
		return nil, errClosing
	case usable:
		return r, nil
	}
	r, err := d.read(id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return nil, errClosing
	}
	d.loaded[id] = r
	if r.Runner.State().Status.Ended() {
		d.trimLoaded(id)
	}
	return r, nil
}

// read reads a run from the store.
func (d *Drives) read(id string) (*Loaded, error) {
	p, h, err := d.Records.ReadHistory(id)
	if err != nil {
		return nil, err
	}
	runner, err := driver.Load(d.Deps(id), p.Parsed, id, p.Secret, history.NewHistory(h))
	if err != nil {
		return nil, fmt.Errorf("load run %s: %w", id, err)
	}
	models, err := LastModels(p.Kept.Models, h.Facts)
	if err != nil {
		return nil, fmt.Errorf("load run %s: %w", id, err)
	}
	return &Loaded{Runner: runner, begin: p.Kept.Begin, fork: p.Kept.Fork, models: models}, nil
}

// LoadBegun loads a run, and appends its first fact if a crash came between its record and that fact.
func (d *Drives) LoadBegun(ctx context.Context, id string) (*Loaded, error) {
	r, err := d.load(id)
	if err != nil || r.Runner.State().Status != lattice.Pending {
		return r, err
	}
	if r.fork != nil {
		err = r.Runner.BeginFork(ctx, *r.fork)
	} else {
		err = r.Runner.Begin(ctx, r.begin)
	}
	if err != nil && !errors.Is(err, engine.ErrStale) {
		return nil, fmt.Errorf("begin run %s: %w", id, err)
	}
	return r, nil
}

// LoadReady is LoadBegun for a run whose files are needed: after a restart of the machine or of the disk it first restores
// them to a durable checkpoint.
func (d *Drives) LoadReady(ctx context.Context, id string) (*Loaded, error) {
	r, err := d.LoadBegun(ctx, id)
	if err != nil {
		return nil, err
	}
	return r, d.Recovery.recoverRun(ctx, id, r.Runner)
}

// Forget drops the oldest ended runs from memory, with the secrets of their agents. id is a run that has ended.
func (d *Drives) Forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trimLoaded(id)
}

// KeepLoaded is the number of ended runs that stay in memory, for requests that follow soon. An older run is shown from the
// store, and loaded again when it is rewound.
const KeepLoaded = 32

// trimLoaded implements Forget. It requires mu.
func (d *Drives) trimLoaded(id string) {
	d.done = append(slices.DeleteFunc(d.done, func(other string) bool { return other == id }), id)
	for len(d.done) > KeepLoaded {
		oldest := d.done[0]
		d.done = slices.Delete(d.done, 0, 1)
		r := d.loaded[oldest]
		if r == nil || r.done != nil || r.timed > 0 || !r.Runner.State().Status.Ended() {
			continue // it goes on, and comes back here when it ends
		}
		delete(d.loaded, oldest)
		d.Values.forgetRun(oldest)
	}
}

// CountLoaded returns the number of runs in memory.
func (d *Drives) CountLoaded() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.loaded)
}

// Runner returns the runner of a run that is loaded, or nil.
func (d *Drives) Runner(id string) *driver.Runner {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil {
		return r.Runner
	}
	return nil
}

// ModelsOf returns the models that a loaded run asks, nil for the leader's.
func (d *Drives) ModelsOf(id string) *lattice.Models {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.loaded[id]; r != nil {
		return r.models
	}
	return nil
}

// SetModels replaces the models that a run asks.
func (d *Drives) SetModels(r *Loaded, m *lattice.Models) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.models = m
}

// RenewModels returns the model classes of a run with their present settings, nil if nothing changed.
func (d *Drives) RenewModels(r *Loaded, now *lattice.Models) *lattice.Models {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now == nil || r.models == nil {
		return nil
	}
	renewed := now.Only(slices.Collect(maps.Keys(r.models.Classes)))
	for name, class := range r.models.Classes {
		if _, ok := renewed.Classes[name]; !ok { // the settings do not name it now
			renewed.Classes[name] = class
		}
	}
	if maps.Equal(renewed.Digests(), r.models.Digests()) && slices.Equal(renewed.Order, r.models.Order) && renewed.PerMinute == r.models.PerMinute {
		return nil
	}
	return &renewed
}

// LastModels returns the models that a run asks: those of its last rewind that names any, else those of its start.
func LastModels(started *lattice.Models, facts []lattice.Entry) (*lattice.Models, error) {
	for _, e := range slices.Backward(facts) {
		if e.Type != (lattice.Rewound{}).FactType() {
			continue
		}
		var back struct {
			Models *lattice.Models `json:"models"`
		}
		if err := json.Unmarshal(e.Body, &back); err != nil {
			return nil, fmt.Errorf("read the models of a rewind: %w", err)
		}
		if back.Models != nil {
			return back.Models, nil
		}
	}
	return started, nil
}
