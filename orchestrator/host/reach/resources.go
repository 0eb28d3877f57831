package reach

import (
	"context"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

func checkResources(p *records.Resources) error {
	if p.Memory != nil && (p.Memory.LimitMB < 0 || p.Memory.LimitMB > 1<<22) {
		return wire.BadRequest("memory.limit_mb must be a number of MiB from 0 to 4194304")
	}
	p.Unsupported = nil
	if p.Memory != nil && p.Memory.Autoscale {
		p.Unsupported = append(p.Unsupported, "memory.autoscale: memory of this host is given as it is used, up to the limit")
	}
	return nil
}

func (a *Policies) GetResources(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	if rec.Resources == nil {
		rec.Resources = &records.Resources{}
	}
	wire.WriteJSON(w, http.StatusOK, rec.Resources)
	return nil
}

// appliedResources answers a change with the stored policy, and when it takes effect.
type appliedResources struct {
	*records.Resources
	Effective string `json:"effective"` // "now" or "next_start"
	Why       string `json:"why,omitempty"`
}

func (a *Policies) SetResources(w http.ResponseWriter, r *http.Request) error {
	in := &records.Resources{}
	if err := readStrict(w, r, in); err != nil {
		return err
	}
	if err := checkResources(in); err != nil {
		return err
	}
	late, err := a.applyResources(r.Context(), r.PathValue("name"), in)
	if err != nil {
		return err
	}
	answer := appliedResources{Resources: in, Effective: "now"}
	if late != nil {
		answer.Effective, answer.Why = "next_start", late.Error()
	}
	wire.WriteJSON(w, http.StatusOK, answer)
	return nil
}

func (a *Policies) DeleteResources(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.applyResources(r.Context(), r.PathValue("name"), nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// applyResources keeps a policy and binds the sandbox that runs by it. Late says why that sandbox is not bound. It passes the
// gate alone: no sandbox starts with the limits from before, and of two changes the last one holds.
func (a *Policies) applyResources(ctx context.Context, name string, in *records.Resources) (late, err error) {
	s, _, leave, err := a.sprites.Enter(ctx, name, fleet.Alone)
	if err != nil {
		return nil, err
	}
	defer leave()
	rec, err := a.Store.UpdateSprite(name, func(rec *records.Sprite) {
		rec.Resources, rec.UpdatedAt = in, a.Now()
	})
	if err != nil {
		return nil, err
	}
	if box := s.Present(); box != nil {
		late = box.Limits().SetMemory(a.confiner.BoxLimits(rec).MemoryBytes)
	}
	return late, nil
}
