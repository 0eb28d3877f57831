package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	kept := &wire.Spool{Dir: hs.TempDir()}
	defer kept.Close()
	lined := strings.Contains(r.Header.Get("Accept"), "application/x-ndjson")
	if err := hs.compareStates(r, kept, lined); err != nil {
		return err
	}
	if lined {
		kept.Send(w, "application/x-ndjson")
	} else {
		kept.Send(w, "application/json")
	}
	return nil
}

// compareStates writes the answer of Diff. It is at the sprite's gate only until it returns: a slow client holds up no other call.
func (hs *API) compareStates(r *http.Request, to io.Writer, lined bool) error {
	_, rec, leave, err := hs.Sprites.Enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	old, now := r.URL.Query().Get("from"), cmp.Or(r.URL.Query().Get("to"), sprites.Current)
	if old == "" {
		if old, err = hs.sourceOf(rec, now); err != nil {
			return err
		}
	}
	a, err := hs.listFolders(rec, old)
	if err != nil {
		return err
	}
	b, err := hs.listFolders(rec, now)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(to)
	enc, before := json.NewEncoder(out), "["
	err = tree.Diff(r.Context(), a, b, func(c tree.Change) error {
		if !lined {
			if _, err := out.WriteString(before); err != nil {
				return err
			}
			before = ","
		}
		return enc.Encode(describeChange(c))
	})
	if err != nil {
		return err
	}
	end := `{"type":"complete"}`
	if !lined {
		end = strings.TrimSuffix(before, ",") + "]"
	}
	_, err = out.WriteString(end + "\n")
	return errors.Join(err, out.Flush())
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
