package history

import (
	"errors"
	"net/http"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Usage answers with the disk usage of a sprite: its own changes, counted now, and its checkpoints.
func (hs *API) Usage(w http.ResponseWriter, r *http.Request) error {
	_, rec, leave, err := hs.Sprites.Enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	now, err := hs.Store.Layer(rec.Tree)
	if err != nil {
		return wire.Degraded(err.Error())
	}
	sum, err := tree.Size(r.Context(), hs.Layers.DataDir(now))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	chain, err := hs.Store.Chain(rec.Tree)
	if err != nil {
		return err
	}
	points, err := hs.Store.Checkpoints(rec.ID)
	if err != nil {
		return err
	}
	out := sprites.Usage{Driver: string(now.Driver), Depth: len(chain), Entries: sum.Entries, Bytes: sum.Bytes}
	counted := map[string]bool{rec.Tree: true}
	for _, p := range points {
		below, err := hs.Store.Chain(p.Tree)
		if err != nil {
			continue // it is listed as damaged
		}
		for _, l := range below {
			if !counted[l.ID] {
				out.CheckpointBytes += l.Bytes
			}
			counted[l.ID] = true
		}
	}
	out.Checkpoints = len(points)
	left, err := core.FreeSpace(hs.Config.Dir)
	if err != nil {
		return err
	}
	out.DiskFree, out.DiskTotal = left.Bytes, left.TotalBytes
	out.DiskLow = left.Low(hs.Config.Reserve)
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// VerifyCheckpoint reads the files of a checkpoint again and compares them with their digest.
func (hs *API) VerifyCheckpoint(w http.ResponseWriter, r *http.Request) error {
	rec, err := hs.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	p, err := hs.Store.Checkpoint(rec.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	chain, err := hs.Store.Chain(p.Tree)
	if err != nil {
		return lostCheckpoint(p.ID, err.Error())
	}
	ids := hs.Layers.Pin(chain)
	defer hs.Layers.Unpin(ids)
	why, err := hs.Settler.Verify(r.Context(), p.Tree)
	if err != nil {
		return err
	}
	out := sprites.Verified{ID: p.ID, OK: why == "", Damage: why}
	for _, l := range chain {
		if l, err := hs.Store.Layer(l.ID); err == nil {
			out.Digests = append(out.Digests, l.Digest)
			out.Entries += l.Entries
			out.Bytes += l.Bytes
		}
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}
