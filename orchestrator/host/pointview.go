package host

import (
	"errors"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// Sprites look into their last checkpoints at /.sprite/checkpoints/<id>, read-only. What a box shows is settled at its start;
// where the host is root it follows what is made and deleted while commands run, elsewhere the next start does.

// shownPoints is how many checkpoints a box shows, the newest ones; those that the host made by itself are not among them.
const shownPoints = 5

// pointView lists what the box of a sprite is to show, the newest first, and the layers that it mounts for that. What lost
// its files is left out.
func (ls *layerStore) pointView(spriteID string) (points []sandbox.Point, chain []layerRecord, err error) {
	if ls.confiner.confined().plain {
		return nil, nil, nil // it has no mounts
	}
	all, err := ls.store.checkpoints(spriteID)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range slices.Backward(all) {
		if p.Auto || ls.degraded(p.Tree) != "" {
			continue
		}
		root, layers, err := ls.root(p.Tree)
		if err != nil {
			return nil, nil, err
		}
		points, chain = append(points, sandbox.Point{ID: p.ID, Root: root}), append(chain, layers...)
		if len(points) == shownPoints {
			break
		}
	}
	return points, chain, nil
}

// refreshView has the running box, if there is one, show what its checkpoints are now. That is no reason for what changed
// them to fail.
func (s *sprite) refreshView() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil || ended(s.box) {
		return
	}
	points, chain, err := s.fleet.layers.pointView(s.id)
	if err != nil {
		s.fleet.cfg.Log.Warn().Err(err).Str("sprite", s.name).Msg("show the sprite its checkpoints")
		return
	}
	wanted := func(id string) bool {
		return slices.ContainsFunc(points, func(p sandbox.Point) bool { return p.ID == id })
	}
	s.pinned = append(s.pinned, s.fleet.layers.pin(chain)...) // with what is hidden: somebody may be looking at it still
	s.shown = slices.DeleteFunc(s.shown, func(id string) bool {
		return !wanted(id) && s.tried(s.box.Hide(id))
	})
	for _, p := range points {
		if !slices.Contains(s.shown, p.ID) && s.tried(s.box.Show(p)) {
			s.shown = append(s.shown, p.ID)
		}
	}
}

// tried reports whether the box's view was changed, and logs why it was not.
func (s *sprite) tried(err error) bool {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.fleet.cfg.Log.Warn().Err(err).Str("sprite", s.name).Msg("show the sprite its checkpoints")
	}
	return err == nil
}
