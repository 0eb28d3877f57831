package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// forkSprite makes a new sprite with the files of a checkpoint of another, or of its present state. It has all that the
// other was made and bound with, its services and its network policy among it, and neither its checkpoints, its URL's
// settings nor its labels.
func (hs *historyAPI) forkSprite(w http.ResponseWriter, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	var in struct {
		Name   string   `json:"name"`
		Labels []string `json:"labels"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if err := hs.catalog.checkNew(in.Name, in.Labels); err != nil {
		return err
	}
	if err := hs.checkRoom(); err != nil {
		return err
	}
	if err := hs.catalog.admitCreation(r.Context(), false); err != nil {
		return err
	}
	rec, err := hs.fork(r.Context(), name, id, in.Name, in.Labels)
	if err != nil {
		return err
	}
	hs.step("forked")
	hs.cfg.Log.Info().Str("sprite", rec.Name).Str("of", name).Str("checkpoint", id).Msg("sprite forked")
	writeJSON(w, http.StatusCreated, hs.catalog.created(rec))
	return nil
}

func (hs *historyAPI) fork(ctx context.Context, name, id, to string, labels []string) (spriteRecord, error) {
	// Alone, as for a checkpoint, or for a deletion of the one that is forked.
	s, rec, leave, err := hs.sprites.enter(ctx, name, alone)
	if err != nil {
		return rec, err
	}
	defer leave()
	var now present
	if id == sprites.Current {
		if why := hs.layers.degraded(rec.Tree); why != "" {
			return rec, degradedError(why)
		}
		now, err = hs.capture(ctx, s, rec)
	} else {
		var p checkpointRecord
		if p, err = hs.store.checkpoint(s.id, id); err == nil {
			now.layer, err = hs.usable(ctx, p)
		}
	}
	if err != nil {
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	made, err := hs.merger.onTop(ctx, now.layer)
	if err != nil {
		hs.layers.abandon(now.made...)
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	forked := rec
	forked.ID, forked.Name, forked.Tree, forked.Labels = "sprite-"+ulid.Make().String(), to, made.ID, labels
	forked.Source, forked.Checkpointed, forked.URLSettings = "", 0, sprites.URLSettings{}
	forked.CreatedAt = hs.now()
	forked.UpdatedAt, forked.LastStarted, forked.LastWarmed = forked.CreatedAt, nil, nil
	garbage, err := hs.store.forkSprite(name, now, forked, made, hs.layers.isMounted)
	if err != nil {
		hs.layers.abandon(append(slices.Clone(now.made), made)...)
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	hs.layers.discard(garbage...)
	if now.ended {
		s.resume(name)
	}
	if id == sprites.Current {
		hs.settler.settleLater(now.layer.ID)
		hs.merger.mergeLater(now.layer.ID)
	}
	return forked, nil
}
