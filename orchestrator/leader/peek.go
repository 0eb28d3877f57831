package leader

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Peek lists the newest runs of a home that nobody leads, newest first, without leading it and without changing anything;
// limit 0 means all. It fails when somebody leads: ask that process.
func Peek(home Home, limit int) ([]api.RunView, error) {
	s, err := store.OpenReadOnly(home.Store())
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", home, err)
	}
	defer s.Close()
	l := &Leader{home: home, store: s, runs: map[string]*run{}}
	all, err := s.Recent("", limit)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", home, err)
	}
	views := make([]api.RunView, 0, len(all))
	for _, r := range all {
		if v, err := l.view(r.ID); err == nil { // one that cannot be read does not hide the others
			views = append(views, v)
		}
	}
	return views, nil
}

// PeekMoments is Peek for the moments of a run. Whether they can be gone back to only a leader knows.
func PeekMoments(home Home, id string) ([]api.Moment, error) {
	s, err := store.OpenReadOnly(home.Store())
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", home, err)
	}
	defer s.Close()
	l := &Leader{home: home, store: s, runs: map[string]*run{}}
	if id, err = l.resolve(id); err != nil {
		return nil, err
	}
	p, err := l.journaled(id)
	if err != nil {
		return nil, err
	}
	out := make([]api.Moment, len(p.points))
	for i, pt := range p.points {
		out[i] = p.view(pt)
	}
	return out, nil
}
