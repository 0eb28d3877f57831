package leader

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Peek lists the newest runs of the store at an address, newest first; limit 0 means all. It does not lead and changes nothing. It
// fails if a process has the file open.
func Peek(address string, limit int) ([]api.RunView, error) {
	s, err := store.OpenReadOnly(address)
	if err != nil {
		return nil, fmt.Errorf("look into the store: %w", err)
	}
	defer s.Close()
	v := peekViews(s)
	all, err := s.Recent("", limit)
	if err != nil {
		return nil, fmt.Errorf("look into the store: %w", err)
	}
	views := make([]api.RunView, 0, len(all))
	for _, r := range all {
		if v, err := v.Build(r.ID); err == nil { // one that cannot be read does not hide the others
			views = append(views, v)
		}
	}
	return views, nil
}

// PeekMoments is Peek for the moments of a run. Only a leader can tell which of them are available.
func PeekMoments(address, id string) ([]api.Moment, error) {
	s, err := store.OpenReadOnly(address)
	if err != nil {
		return nil, fmt.Errorf("look into the store: %w", err)
	}
	defer s.Close()
	v := peekViews(s)
	if id, err = v.Records.Resolve(id); err != nil {
		return nil, err
	}
	p, err := v.States.ReadPast(id)
	if err != nil {
		return nil, err
	}
	out := make([]api.Moment, len(p.Points))
	for i, pt := range p.Points {
		out[i] = p.View(pt)
	}
	return out, nil
}

// PeekProgram is Peek for the program of a run.
func PeekProgram(address, id string) (json.RawMessage, error) {
	s, err := store.OpenReadOnly(address)
	if err != nil {
		return nil, fmt.Errorf("look into the store: %w", err)
	}
	defer s.Close()
	return peekViews(s).Program(context.Background(), id)
}

// peekViews returns the views of a store that no leader has: nothing is driven.
func peekViews(s *store.Store) *views.Views {
	records, idle := &history.Records{Store: s}, new(drive.Drives)
	return &views.Views{Store: s, Records: records, States: &history.States{Store: s, Records: records, Live: idle}, Drives: idle, Values: new(drive.Values)}
}
