package leader

import (
	"context"
	"math"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Models asks models, and knows beforehand which it could not ask. Ready and Upward answer for people: they send nothing.
type Models interface {
	engine.Model
	Ready(class string, priced bool) error
	Upward(from, to string) error
}

// model is who answers for models, nil when nobody does.
func (l *Leader) model() engine.Model {
	if l.cfg.Models == nil {
		return nil
	}
	return asker{l.cfg.Models}
}

// asker stops a run, instead of failing it, at a question that cannot be asked here: who resumes it may have forgotten a key.
type asker struct{ Models }

func (a asker) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	if err := a.Ready(q.Class, false); err != nil {
		return lattice.ModelReply{}, notReady(err.Error(), "; then: lattice resume")
	}
	return a.Models.Ask(ctx, q)
}

func notReady(why, next string) error {
	return api.Refuse(protocol.ExitBadInput, "models_not_ready", why, "lattice doctor says which models there are"+next)
}

// admitModels refuses a flow that asks models which cannot be asked here; all of them are named.
func (l *Leader) admitModels(p *ir.Program) error {
	classes := p.ModelClasses()
	if len(classes) == 0 {
		return nil
	}
	if l.cfg.Models == nil {
		return api.Refuse(protocol.ExitUnsupported, "models_missing", "the flow asks models, and this lattice has none", "name them in the settings, as [models."+classes[0]+"]")
	}
	priced := p.Doc.Limits != nil && p.Doc.Limits.MaxCostUSD > 0
	var faults []string
	for _, class := range classes {
		if err := l.cfg.Models.Ready(class, priced); err != nil {
			faults = append(faults, err.Error())
		}
	}
	for _, climb := range p.Climbs() {
		if err := l.cfg.Models.Upward(climb.From, climb.To); err != nil {
			faults = append(faults, err.Error())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return notReady(strings.Join(faults, "\n  "), "")
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
