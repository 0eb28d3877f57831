package host

import (
	"context"
	"net/http"
)

func checkResources(p *resources) error {
	if p.Memory != nil && (p.Memory.LimitMB < 0 || p.Memory.LimitMB > 1<<22) {
		return badRequest("memory.limit_mb must be a number of MiB from 0 to 4194304")
	}
	p.Unsupported = nil
	if p.Memory != nil && p.Memory.Autoscale {
		p.Unsupported = append(p.Unsupported, "memory.autoscale: memory of this host is given as it is used, up to the limit")
	}
	return nil
}

func (a *policyAPI) getResources(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	if rec.Resources == nil {
		rec.Resources = &resources{}
	}
	writeJSON(w, http.StatusOK, rec.Resources)
	return nil
}

// appliedResources answers a change: what is kept, and from when on it holds.
type appliedResources struct {
	*resources
	Effective string `json:"effective"` // "now" or "next_start"
	Why       string `json:"why,omitempty"`
}

func (a *policyAPI) setResources(w http.ResponseWriter, r *http.Request) error {
	in := &resources{}
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
	answer := appliedResources{resources: in, Effective: "now"}
	if late != nil {
		answer.Effective, answer.Why = "next_start", late.Error()
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (a *policyAPI) deleteResources(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.applyResources(r.Context(), r.PathValue("name"), nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// applyResources keeps a policy and binds the sandbox that runs by it. Late says why that sandbox is not bound. It passes the
// gate alone: no sandbox starts with the limits from before, and of two changes the last one holds.
func (a *policyAPI) applyResources(ctx context.Context, name string, in *resources) (late, err error) {
	s, _, leave, err := a.sprites.enter(ctx, name, alone)
	if err != nil {
		return nil, err
	}
	defer leave()
	rec, err := a.store.updateSprite(name, func(rec *spriteRecord) {
		rec.Resources, rec.UpdatedAt = in, a.now()
	})
	if err != nil {
		return nil, err
	}
	if box := s.present(); box != nil {
		late = box.LimitMemory(a.confiner.boxLimits(rec).MemoryBytes)
	}
	return late, nil
}
