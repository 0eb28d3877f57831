package host

import (
	"errors"
	"os"
	"path/filepath"
)

// sweep makes the host's folders and removes what host.db does not refer to. What cannot be removed is in nobody's way: some
// sprite made it, and none shall keep the host from starting.
func (hs *historyAPI) sweep() error {
	for _, wiped := range []string{"tmp", "trash", "run"} {
		hs.scrap(wiped)
	}
	for _, name := range []string{"layers", "trees", "tmp", "trash", "run", "cache"} {
		if err := os.MkdirAll(filepath.Join(hs.cfg.Dir, name), 0o711); err != nil {
			return err
		}
	}
	layers, ids, err := hs.store.settleLayers(hs.Disk())
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
		hs.settler.settleLater(torn...)
	}
	return errors.Join(hs.removeUnknown("layers", places[false]), hs.removeUnknown("trees", places[true]), hs.removeUnknown("cache", ids))
}

func (hs *historyAPI) removeUnknown(folder string, known map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(hs.cfg.Dir, folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		hs.scrap(filepath.Join(folder, e.Name()))
	}
	return nil
}

// scrap removes one of the host's folders as far as it can.
func (hs *historyAPI) scrap(name string) {
	if err := removeAll(filepath.Join(hs.cfg.Dir, name)); err != nil {
		hs.cfg.Log.Warn().Err(err).Str("folder", name).Msg("remove what nothing refers to")
	}
}
