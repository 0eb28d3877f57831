package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Diff answers with the differences between two checkpoints of a sprite, one object for each path: as lines for clients that
// accept application/x-ndjson, the last of which says that it is complete, else as an array. `to` is the present state
// unless it is given, and `from` the checkpoint that it descends from.
func (hs *API) Diff(w http.ResponseWriter, r *http.Request) error {
	_, rec, leave, err := hs.Sprites.Enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
	to = cmp.Or(to, sprites.Current)
	if from == "" {
		if from, err = hs.sourceOf(rec, to); err != nil {
			return err
		}
	}
	a, err := hs.listFolders(rec, from)
	if err != nil {
		return err
	}
	b, err := hs.listFolders(rec, to)
	if err != nil {
		return err
	}
	lined := strings.Contains(r.Header.Get("Accept"), "application/x-ndjson")
	if !lined {
		changes := []sprites.Change{}
		err := tree.Diff(r.Context(), a, b, func(c tree.Change) error {
			changes = append(changes, describeChange(c))
			return nil
		})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, changes)
		return nil
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	err = tree.Diff(r.Context(), a, b, func(c tree.Change) error { return enc.Encode(describeChange(c)) })
	if err != nil {
		_ = enc.Encode(map[string]string{"type": "error", "error": err.Error()}) // a client that is gone does not matter
		return nil
	}
	_ = enc.Encode(map[string]string{"type": "complete"})
	return nil
}

// sourceOf is the checkpoint that a state descends from.
func (hs *API) sourceOf(rec records.Sprite, id string) (string, error) {
	source := rec.Source
	if id != sprites.Current {
		p, err := hs.Store.Checkpoint(rec.ID, id)
		if err != nil {
			return "", err
		}
		source = p.Source
	}
	if source == "" {
		return "", wire.BadRequest(id + " descends from no checkpoint; name the one to compare with as from=")
	}
	return source, nil
}

// listFolders lists the folders that hold a checkpoint's files, or the present ones.
func (hs *API) listFolders(rec records.Sprite, id string) ([]string, error) {
	layer := rec.Tree
	if id != sprites.Current {
		p, err := hs.Store.Checkpoint(rec.ID, id)
		if err != nil {
			return nil, err
		}
		layer = p.Tree
	}
	if why := hs.Layers.WhyDegraded(layer); why != "" {
		return nil, lostCheckpoint(id, why)
	}
	return hs.Layers.Folders(layer)
}

func describeChange(c tree.Change) sprites.Change {
	out := sprites.Change{Path: "/" + strings.ToValidUTF8(c.Path, "\ufffd"), Change: string(c.Kind)}
	if c.Kind != tree.Added {
		out.OldType, out.OldSize, out.OldMode = c.From.Type, c.From.Size, formatMode(c.From.Mode)
	}
	if c.Kind != tree.Deleted {
		out.Type, out.Size, out.Mode = c.To.Type, c.To.Size, formatMode(c.To.Mode)
	}
	return out
}

func formatMode(mode uint32) string { return fmt.Sprintf("%04o", mode) }
