package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Models asks models. Ready and Upward report, without a request, whether a class could be asked; Bound returns the most that
// a request can take.
type Models interface {
	driver.Model
	Bound(q lattice.ModelRequest) lattice.ModelBound
	Ready(class string, priced bool) error
	Upward(from, to string) error
}

// ModelSet opens the models that runs ask, once for equal settings, and keeps their keys. It is safe for concurrent use.
type ModelSet struct {
	Own  Models // for runs that do not name theirs; nil: none
	Open func(m lattice.Models, key func(name string) string) (Models, error)

	mu     sync.Mutex
	keys   map[string]string // guarded by mu: values of variables, as clients sent them last
	opened map[string]Models // guarded by mu: by the JSON of lattice.Models
}

// keepKeys stores the values of variables that hold keys.
func (m *ModelSet) keepKeys(keys map[string]string) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = map[string]string{}
	}
	maps.Copy(m.keys, keys)
}

// Key returns the value of a variable that holds a key.
func (m *ModelSet) Key(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[name]
}

// Kept returns all keys.
func (m *ModelSet) Kept() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.keys)
}

// Find returns the models that a run was started with, or those of the leader when kept is nil; nil when there are none.
func (m *ModelSet) Find(kept *lattice.Models) (Models, error) {
	if kept == nil || m.Open == nil {
		return m.Own, nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode the model classes: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.opened[string(raw)]; ok {
		return found, nil
	}
	opened, err := m.Open(*kept, m.Key)
	if err != nil {
		return nil, err
	}
	if m.opened == nil {
		m.opened = map[string]Models{}
	}
	m.opened[string(raw)] = opened
	return opened, nil
}

// Asker stops a run, instead of failing it, at a question that cannot be asked here: a key may be missing that the next
// resume brings.
type Asker struct{ Models func() (Models, error) }

func (a Asker) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	m, err := a.Models()
	if err != nil {
		return lattice.ModelReply{}, err
	}
	if m == nil {
		return lattice.ModelReply{}, notReady("this lattice has no models", "; then: lattice resume")
	}
	if err := m.Ready(q.Class, false); err != nil {
		return lattice.ModelReply{}, notReady(err.Error(), "; then: lattice resume")
	}
	return m.Ask(ctx, q)
}

func notReady(why, next string) error {
	return fault.BadInput("models_not_ready", "%s", why).WithHint("lattice doctor says which models there are%s", next)
}

// Admit refuses a flow that asks models which cannot be asked here; all of them are named. It returns those of the
// run's models that the flow may ask.
func (m *ModelSet) Admit(p *ir.Program, o api.Options) (*lattice.Models, error) {
	classes := p.ModelClasses()
	if len(classes) == 0 {
		return nil, nil
	}
	if o.Models != nil {
		asked := o.Models.Only(classes)
		o.Models = &asked
	}
	m.keepKeys(o.ModelKeys)
	models, err := m.Find(o.Models)
	if err != nil {
		return nil, err
	}
	if models == nil {
		return nil, fault.Unsupported("models_missing", "the flow asks models, and this lattice has none").WithHint("name them in the settings, as [models.%s]", classes[0])
	}
	priced := p.Doc.Limits != nil && p.Doc.Limits.MaxCostUSD > 0
	var faults []string
	for _, class := range classes {
		if err := models.Ready(class, priced); err != nil {
			faults = append(faults, err.Error())
		}
	}
	for _, climb := range p.Climbs() {
		if err := models.Upward(climb.From, climb.To); err != nil {
			faults = append(faults, err.Error())
		}
	}
	if len(faults) == 0 {
		return o.Models, nil
	}
	return nil, notReady(strings.Join(faults, "\n  "), "")
}
