package history

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/core"
)

// Sweep makes the host's folders and removes files that host.db does not refer to. Files that cannot be removed do no harm: some
// sprite made them, and they must not keep the host from starting.
func (hs *API) Sweep() error {
	for _, wiped := range []string{"tmp", "trash", "run"} {
		hs.removeFolder(wiped)
	}
	for _, name := range []string{"layers", "trees", "tmp", "trash", "run", "cache"} {
		if err := os.MkdirAll(filepath.Join(hs.Config.Dir, name), 0o711); err != nil {
			return err
		}
	}
	layers, ids, err := hs.Store.RecountLayers(hs.Disk())
	if err != nil {
		return err
	}
	places := map[bool]map[string]bool{true: {}, false: {}} // plain ones lie in a folder of their own
	var torn []string
	for id, l := range layers {
		places[l.Plain][id] = true
		if l.Frozen && !l.Durable {
			torn = append(torn, id)
		}
	}
	if len(torn) > 0 {
		hs.Settler.SettleLater(torn...)
	}
	return errors.Join(hs.removeUnknown("layers", places[false]), hs.removeUnknown("trees", places[true]), hs.removeUnknown("cache", ids))
}

func (hs *API) removeUnknown(folder string, known map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(hs.Config.Dir, folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		hs.removeFolder(filepath.Join(folder, e.Name()))
	}
	return nil
}

// removeFolder removes one of the host's folders as far as it can.
func (hs *API) removeFolder(name string) {
	if err := core.RemoveAll(filepath.Join(hs.Config.Dir, name)); err != nil {
		hs.Config.Log.Warn().Err(err).Str("folder", name).Msg("remove what nothing refers to")
	}
}
