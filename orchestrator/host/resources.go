package host

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// resources is the policy/resources document. A sprite that runs is bound by a change at once, where the kernel can do that.
type resources struct {
	Memory *struct {
		LimitMB   int  `json:"limit_mb"`
		Autoscale bool `json:"autoscale,omitempty"`
	} `json:"memory,omitempty"`
	Unsupported []string `json:"unsupported,omitempty"`
}

func (p *resources) check() error {
	if p.Memory != nil && (p.Memory.LimitMB < 0 || p.Memory.LimitMB > 1<<22) {
		return badRequest("memory.limit_mb must be a number of MiB from 0 to 4194304")
	}
	p.Unsupported = nil
	if p.Memory != nil && p.Memory.Autoscale {
		p.Unsupported = append(p.Unsupported, "memory.autoscale: memory of this host is given as it is used, up to the limit")
	}
	return nil
}

// memoryLimit is how much memory the sprite's policy gives it, in bytes; 0 leaves it to the host.
func (p *resources) memoryLimit() int64 {
	if p == nil || p.Memory == nil {
		return 0
	}
	return int64(p.Memory.LimitMB) << 20
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
	if err := in.check(); err != nil {
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

// limitsInUse is what the sandbox that runs is bound by, which a policy may have changed since it started.
func (fl *fleet) limitsInUse(rec spriteRecord, given sandbox.Limits) (sandbox.Limits, string) {
	fl.mu.Lock()
	s := fl.sprites[rec.ID]
	fl.mu.Unlock()
	if s == nil {
		return given, ""
	}
	box := s.present()
	if box == nil {
		return given, ""
	}
	asked := given.MemoryBytes
	if given.MemoryBytes = box.MemoryLimit(); asked > 0 && asked != given.MemoryBytes {
		return given, fmt.Sprintf("%d bytes from the sprite's next start on", asked)
	}
	return given, ""
}
