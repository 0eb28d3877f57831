package local

import (
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/sprites/local/layer"
)

// chooseDriver finds out what new sprites are kept in: what the configuration names, else snapshots where the data is on
// btrfs, overlays where boxes can mount them, and copies elsewhere.
func (h *Host) chooseDriver() (layer.Driver, error) {
	kind := h.cfg.Storage
	if kind == "" {
		kind = layer.CAS
		switch {
		case h.confined().plain:
		case layer.OnBtrfs(h.cfg.Dir):
			kind = layer.Btrfs
		}
	}
	d, err := layer.Open(kind)
	if err != nil {
		return nil, fmt.Errorf("choose how to store sprites: %w", err)
	}
	if kind == layer.Overlay && h.confined().plain {
		return nil, errNoOverlay
	}
	return d, nil
}

var errNoOverlay = &apiError{http.StatusConflict, "storage_unavailable",
	"these files are kept in overlays, which need namespaces, and this system refuses them; see `lattice doctor`, or start the host with another storage driver"}

// open returns the driver of a layer.
func (h *Host) open(l layerRecord) (layer.Driver, error) {
	if l.Driver == layer.Overlay && h.confined().plain {
		return nil, errNoOverlay
	}
	return layer.Open(l.Driver)
}
