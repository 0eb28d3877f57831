package leader

import (
	"cmp"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// What a run was started with belongs to it (DESIGN 31): it is kept with its record, given to its sprite when that is made,
// and applied by every process that leads later.

// complete fills in what a run's own sprite gets that its start does not say.
func (l *Leader) complete(o *api.Options) {
	if l.host == nil {
		return
	}
	o.Network = cmp.Or(o.Network, string(l.cfg.Network.Preset))
	if o.HostPorts == nil {
		o.HostPorts = append([]uint16{}, l.cfg.Network.HostPorts...)
	}
}

// startedWith is what a run keeps of its start, for those who look at it, with the models that it asks by now.
func (l *Leader) startedWith(id string, epoch int) (*api.StartedWith, error) {
	rec, err := l.record(id)
	if err != nil {
		return nil, err
	}
	o := rec.kept.Options
	if o.Models != nil && epoch > 0 {
		h, err := l.store.Load(id)
		if err != nil {
			return nil, err
		}
		if o.Models, err = lastModels(o.Models, h.Facts); err != nil {
			return nil, err
		}
	}
	return startedBy(o), nil
}

// startedBy is what a run with these options is started with.
func startedBy(o api.Options) *api.StartedWith {
	s := api.StartedWith{Limits: o.Limits, MinIsolation: o.MinIsolation, Tools: o.Tools, Skills: o.Skills, Spritekit: o.Spritekit, AgentEnv: o.AgentEnv}
	if o.OwnSprite {
		s.Network, s.HostPorts, s.Image = o.Network, o.HostPorts, cmp.Or(o.Image, sprites.NoImage)
	}
	if o.Models != nil {
		s.Models, s.ModelKeys = o.Models.Digests(), o.Models.KeyEnvs()
	}
	return &s
}

// skillsRefused is why a run's skills may not run here, nil when they may.
func (l *Leader) skillsRefused(o api.Options) error {
	if l.noSkills == nil && o.Spritekit == "" {
		return l.noSpritekit
	}
	return l.noSkills
}

// ownSprite is the name of the sprite that is made for a run.
func ownSprite(run string) string { return strings.ReplaceAll(run, "_", "-") }

// spritekitOf is the spritekit that a remote sprite gets: its run's, else the one that this process was told.
func (l *Leader) spritekitOf(sprite string) string {
	rec, err := l.record(strings.Replace(sprite, "-", "_", 1)) // the opposite of ownSprite
	if err != nil || !rec.kept.OwnSprite || rec.Sprite != sprite {
		return l.cfg.Spritekit
	}
	return cmp.Or(rec.kept.Spritekit, l.cfg.Spritekit)
}
