package history

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// ForkSprite makes a new sprite with the files of a checkpoint of another, or of its present state. It has all that the
// other was made and bound with, its services and its network policy among it, and neither its checkpoints, its URL's
// settings nor its labels.
func (hs *API) ForkSprite(w http.ResponseWriter, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	var in struct {
		Name   string   `json:"name"`
		Labels []string `json:"labels"`
	}
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := hs.Catalog.CheckNew(in.Name, in.Labels); err != nil {
		return err
	}
	if err := hs.CheckSpace(); err != nil {
		return err
	}
	if err := hs.Catalog.AdmitCreation(r.Context(), false); err != nil {
		return err
	}
	rec, err := hs.forkSprite(r.Context(), name, id, in.Name, in.Labels)
	if err != nil {
		return err
	}
	hs.Step("forked")
	hs.Config.Log.Info().Str("sprite", rec.Name).Str("of", name).Str("checkpoint", id).Msg("sprite forked")
	wire.WriteJSON(w, http.StatusCreated, hs.Catalog.Created(rec))
	return nil
}

func (hs *API) forkSprite(ctx context.Context, name, id, to string, labels []string) (records.Sprite, error) {
	if id == sprites.Current {
		if err := hs.announceCapture(ctx, name); err != nil {
			return records.Sprite{}, err
		}
	}
	// Alone, as for a checkpoint, or for a deletion of the one that is forked.
	s, rec, leave, err := hs.Sprites.Enter(ctx, name, fleet.Alone)
	if err != nil {
		return rec, err
	}
	defer leave()
	var now records.Captured
	if id == sprites.Current {
		if why := hs.Layers.WhyDegraded(rec.Tree); why != "" {
			return rec, wire.Degraded(why)
		}
		now, err = hs.captureFiles(ctx, s, rec)
	} else {
		var p records.Checkpoint
		if p, err = hs.Store.Checkpoint(s.ID, id); err == nil {
			now.Layer, err = hs.usableLayer(ctx, p)
		}
	}
	if err != nil {
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	made, err := hs.Merger.Continue(ctx, now.Layer)
	if err != nil {
		hs.Layers.Abandon(now.Made...)
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	forked := rec
	forked.ID, forked.Name, forked.Tree, forked.Labels = "sprite-"+ulid.Make().String(), to, made.ID, labels
	forked.Source, forked.Checkpointed, forked.URLSettings = "", 0, sprites.URLSettings{}
	forked.CreatedAt = hs.Now()
	forked.UpdatedAt, forked.LastStarted, forked.LastWarmed = forked.CreatedAt, nil, nil
	garbage, err := hs.Store.ForkSprite(name, now, forked, made, hs.Layers.IsMounted)
	if err != nil {
		hs.Layers.Abandon(append(slices.Clone(now.Made), made)...)
		return rec, fmt.Errorf("fork %s: %w", name, err)
	}
	hs.Layers.Discard(garbage...)
	if now.Ended {
		s.Resume(name)
	}
	if id == sprites.Current {
		hs.Settler.SettleLater(now.Layer.ID)
		hs.Merger.MergeLater(now.Layer.ID)
	}
	return forked, nil
}
