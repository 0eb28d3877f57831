package fleet

import (
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// NetworkLog returns the denied accesses of the sprite, the last first, and counts of the others.
func (s *Sprite) NetworkLog() ([]egress.Denial, egress.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denialList().List(), s.world.Stats()
}

// SetPolicy stores the network policy of the sprite, nil for that of its preset, and applies it to the box that runs.
func (s *Sprite) SetPolicy(rules *[]egress.Rule) error {
	fl := s.fleet
	s.mu.Lock() // a box that starts reads the policy under it
	defer s.mu.Unlock()
	rec, err := fl.Store.UpdateSprite(s.Name, func(rec *records.Sprite) {
		rec.Policy, rec.UpdatedAt = rules, fl.Now()
	})
	if err != nil {
		return err
	}
	policy, err := egress.Compile(fl.network.Rules(rec))
	if err != nil {
		return err
	}
	if s.world != nil {
		cut := s.world.SetPolicy(policy)
		fl.Config.Log.Info().Str("sprite", rec.Name).Int("cut", cut).Msg("network policy changed")
	}
	if err := os.MkdirAll(fl.RunDir(rec.ID), 0o755); err != nil {
		return err
	}
	if err := fl.network.Mirror(rec); err != nil {
		return fmt.Errorf("the policy applies, but its mirror could not be written: %w", err)
	}
	return nil
}

// denialList returns the sprite's own list; mu is held.
func (s *Sprite) denialList() *egress.Denials {
	if s.denied == nil {
		log, name := s.fleet.Config.Log, s.Name
		s.denied = egress.NewDenials(s.fleet.Now, func(d egress.Denial) {
			e := log.Warn().Str("sprite", name).Str("kind", d.Kind).Str("code", string(d.Code)).Int("count", d.Count)
			if d.Name != "" {
				e = e.Str("name", d.Name)
			}
			if d.Address.IsValid() {
				e = e.Stringer("address", d.Address)
			}
			if d.Port != 0 {
				e = e.Uint16("port", d.Port)
			}
			e.Str("reason", d.Reason).Msg("network access denied")
		})
	}
	return s.denied
}

// connectNetwork gives the box that was just started its network. mu is held.
func (s *Sprite) connectNetwork(box *sandbox.Box) error {
	rec, err := s.fleet.Store.Sprite(s.Name) // as it is now: SetPolicy takes mu, too
	if err != nil {
		return err
	}
	s.world, err = s.fleet.network.Connect(s.fleet.Context, box, rec, s.denialList())
	return err
}

// disconnectNetwork ends all connections of a box and waits for them. mu is held.
func (s *Sprite) disconnectNetwork() {
	s.world.Close()
	s.world = nil
}

// NetworkEnv is the environment of every command that says how the network is reached.
func (s *Sprite) NetworkEnv() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Environ()
}
