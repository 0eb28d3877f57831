package host

import (
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// networkLog returns what the sprite tried and was denied, the last first, and what passed.
func (s *sprite) networkLog() ([]egress.Denial, egress.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denials().List(), s.world.stats()
}

// setPolicy stores the network policy of the sprite, nil for that of its preset, and applies it to the box that runs.
func (s *sprite) setPolicy(rules *[]egress.Rule) error {
	fl := s.fleet
	s.mu.Lock() // a box that starts meanwhile reads the policy under it
	defer s.mu.Unlock()
	rec, err := fl.store.updateSprite(s.name, func(rec *spriteRecord) {
		rec.Policy, rec.UpdatedAt = rules, fl.now()
	})
	if err != nil {
		return err
	}
	policy, err := egress.Compile(fl.network.rules(rec))
	if err != nil {
		return err
	}
	if s.world != nil {
		cut := s.world.setPolicy(policy)
		fl.cfg.Log.Info().Str("sprite", rec.Name).Int("cut", cut).Msg("network policy changed")
	}
	if err := os.MkdirAll(fl.runDir(rec.ID), 0o755); err != nil {
		return err
	}
	if err := fl.network.mirrorPolicy(rec); err != nil {
		return fmt.Errorf("the policy applies, but its mirror could not be written: %w", err)
	}
	return nil
}

// denials is the sprite's own list; mu is held.
func (s *sprite) denials() *egress.Denials {
	if s.denied == nil {
		log, name := s.fleet.cfg.Log, s.name
		s.denied = egress.NewDenials(s.fleet.now, func(d egress.Denial) {
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

// connect gives the box that was just started its network. mu is held.
func (s *sprite) connect(box *sandbox.Box) error {
	rec, err := s.fleet.store.sprite(s.name) // as it is now: setPolicy takes mu, too
	if err != nil {
		return err
	}
	s.world, err = s.fleet.network.connect(s.fleet.ctx, box, rec, s.denials())
	return err
}

// disconnect ends all connections of a box and waits for them. mu is held.
func (s *sprite) disconnect() {
	s.world.close()
	s.world = nil
}

// networkEnv is the environment of every command that says how the network is reached.
func (s *sprite) networkEnv() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.environ()
}
