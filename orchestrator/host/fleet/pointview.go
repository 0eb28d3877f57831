package fleet

import (
	"errors"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Sprites look into their last checkpoints at /.sprite/checkpoints/<id>, read-only. The list is made when a box starts;
// where the host is root it follows new and deleted checkpoints while commands run, elsewhere the next start does.

// RefreshView has the running box, if there is one, show its present checkpoints. A failure is logged, and does not fail the call that changed
// them.
func (s *Sprite) RefreshView() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil || hasEnded(s.box) {
		return
	}
	points, chain, err := s.fleet.layers.CheckpointMounts(s.ID)
	if err != nil {
		s.fleet.Config.Log.Warn().Err(err).Str("sprite", s.Name).Msg("show the sprite its checkpoints")
		return
	}
	wanted := func(id string) bool {
		return slices.ContainsFunc(points, func(p spec.Point) bool { return p.ID == id })
	}
	s.pinned = append(s.pinned, s.fleet.layers.Pin(chain)...) // with hidden ones: a program may have them open
	s.shown = slices.DeleteFunc(s.shown, func(id string) bool {
		return !wanted(id) && s.noteViewChange(s.box.Hide(id))
	})
	for _, p := range points {
		if !slices.Contains(s.shown, p.ID) && s.noteViewChange(s.box.Show(p)) {
			s.shown = append(s.shown, p.ID)
		}
	}
}

// noteViewChange reports whether the box's view was changed, and logs why it was not.
func (s *Sprite) noteViewChange(err error) bool {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.fleet.Config.Log.Warn().Err(err).Str("sprite", s.Name).Msg("show the sprite its checkpoints")
	}
	return err == nil
}
