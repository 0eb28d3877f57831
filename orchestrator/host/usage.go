package host

import (
	"errors"
	"net/http"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// usage answers with what a sprite takes of the disk: its own changes, counted now, and what its checkpoints hold.
func (hs *historyAPI) usage(w http.ResponseWriter, r *http.Request) error {
	_, rec, leave, err := hs.sprites.enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	now, err := hs.store.layer(rec.Tree)
	if err != nil {
		return degradedError(err.Error())
	}
	sum, err := tree.Size(r.Context(), hs.layers.dataDir(now))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	chain, err := hs.store.chain(rec.Tree)
	if err != nil {
		return err
	}
	points, err := hs.store.checkpoints(rec.ID)
	if err != nil {
		return err
	}
	out := sprites.Usage{Driver: string(now.Driver), Depth: len(chain), Entries: sum.Entries, Bytes: sum.Bytes}
	counted := map[string]bool{rec.Tree: true}
	for _, p := range points {
		below, err := hs.store.chain(p.Tree)
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
	left, err := roomOf(hs.cfg.Dir)
	if err != nil {
		return err
	}
	out.DiskFree, out.DiskTotal = left.Bytes, left.TotalBytes
	out.DiskLow = left.low(hs.cfg.Reserve)
	writeJSON(w, http.StatusOK, out)
	return nil
}

// verifyCheckpoint reads the files of a checkpoint again and compares them with what they were.
func (hs *historyAPI) verifyCheckpoint(w http.ResponseWriter, r *http.Request) error {
	rec, err := hs.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	p, err := hs.store.checkpoint(rec.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	chain, err := hs.store.chain(p.Tree)
	if err != nil {
		return lostCheckpoint(p.ID, err.Error())
	}
	ids := hs.layers.pin(chain)
	defer hs.layers.unpin(ids)
	why, err := hs.settler.verify(r.Context(), p.Tree)
	if err != nil {
		return err
	}
	out := sprites.Verified{ID: p.ID, OK: why == "", Damage: why}
	for _, l := range chain {
		if l, err := hs.store.layer(l.ID); err == nil {
			out.Digests = append(out.Digests, l.Digest)
			out.Entries += l.Entries
			out.Bytes += l.Bytes
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}
