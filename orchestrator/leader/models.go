package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Models asks models, and knows beforehand which it could not ask. Ready and Upward answer for people: they send nothing.
type Models interface {
	engine.Model
	Ready(class string, priced bool) error
	Upward(from, to string) error
}

// askers are the models that this process asks, by what the settings said of them when a run started, and their keys.
type askers struct {
	mu   sync.Mutex
	keys map[string]string // guarded by mu: values of variables, as clients sent them last
	all  map[string]Models // guarded by mu: by the JSON of lattice.Models
}

func (a *askers) keep(keys map[string]string) {
	if len(keys) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[string]string{}
	}
	maps.Copy(a.keys, keys)
}

func (a *askers) key(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[name]
}

func (a *askers) kept() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.keys)
}

// modelsOf answers for the models that a run keeps, or for the leader's own; nil when there are none.
func (l *Leader) modelsOf(kept *lattice.Models) (Models, error) {
	if kept == nil || l.cfg.ModelsOf == nil {
		return l.cfg.Models, nil
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode the model classes: %w", err)
	}
	l.models.mu.Lock()
	defer l.models.mu.Unlock()
	if m, ok := l.models.all[string(text)]; ok {
		return m, nil
	}
	m, err := l.cfg.ModelsOf(*kept, l.models.key)
	if err != nil {
		return nil, err
	}
	if l.models.all == nil {
		l.models.all = map[string]Models{}
	}
	l.models.all[string(text)] = m
	return m, nil
}

// model answers for a run's models.
func (l *Leader) model(id string) engine.Model {
	return asker{func() (Models, error) {
		l.mu.Lock()
		var kept *lattice.Models
		if r := l.runs[id]; r != nil {
			kept = r.models
		}
		l.mu.Unlock()
		return l.modelsOf(kept)
	}}
}

// lastModels are the models that a run asks: those of its start, unless it went back since to ask others.
func lastModels(started *lattice.Models, facts []lattice.Entry) (*lattice.Models, error) {
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

// renewedModels are the classes that a run keeps as the settings name them now, nil where nothing changed.
func (l *Leader) renewedModels(r *run, now *lattice.Models) *lattice.Models {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now == nil || r.models == nil {
		return nil
	}
	renewed := now.Only(slices.Collect(maps.Keys(r.models.Classes)))
	for name, class := range r.models.Classes {
		if _, ok := renewed.Classes[name]; !ok { // the settings name it no more
			renewed.Classes[name] = class
		}
	}
	if maps.Equal(renewed.Digests(), r.models.Digests()) && slices.Equal(renewed.Order, r.models.Order) && renewed.PerMinute == r.models.PerMinute {
		return nil
	}
	return &renewed
}

// asker stops a run, instead of failing it, at a question that cannot be asked here: who resumes it may have forgotten a key.
type asker struct{ models func() (Models, error) }

func (a asker) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	m, err := a.models()
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

// admitModels refuses a flow that asks models which cannot be asked here; all of them are named. It returns those of the
// run's models that the flow may ask.
func (l *Leader) admitModels(p *ir.Program, o api.Options) (*lattice.Models, error) {
	classes := p.ModelClasses()
	if len(classes) == 0 {
		return nil, nil
	}
	if o.Models != nil {
		asked := o.Models.Only(classes)
		o.Models = &asked
	}
	l.models.keep(o.ModelKeys)
	models, err := l.modelsOf(o.Models)
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

// modelUse is what a run's questions to models have taken, nil when it asked none.
func modelUse(s engine.State) *api.ModelUse {
	if s.Models.Calls == 0 {
		return nil
	}
	use := used(s.Models)
	use.Nodes = map[string]api.ModelUse{}
	for node, spent := range s.ModelsBy {
		use.Nodes[node] = used(spent)
	}
	return &use
}

// used is what was spent, to the nanodollar: sums of prices have digits behind that which mean nothing.
func used(s engine.Spent) api.ModelUse {
	s.CostUSD = math.Round(s.CostUSD*1e9) / 1e9
	return api.ModelUse{Calls: s.Calls, ModelUsage: s.ModelUsage}
}
