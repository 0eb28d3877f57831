package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	// usedFile is in a home, written when a call begins to use it: its time says when that was.
	usedFile = ".spritekit-used"

	keepHomes   = 32 // the last used ones
	keepAsked   = 64 // homes of the last calls that wait, or waited, beside those
	maybeInUse  = 3 * time.Hour
	pruneBeyond = keepHomes + 8 // looking through them costs, so it is not done for each one
)

// pruneHomes keeps what sessions leave within bounds: an agent's home is some hundred KiB, and a loop makes one for each
// iteration. The oldest go, with the records of their sessions, but for those that a call may work in at this moment, as
// none may take that long, and those that an answer may still come for.
func pruneHomes(root *workspace.Root, now time.Time) error {
	entries, err := root.List(homesDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) <= pruneBeyond {
		return nil
	}
	if err != nil {
		return err
	}
	type home struct {
		name string
		used time.Time
	}
	var homes []home
	for _, e := range entries {
		info, err := root.Lstat(path.Join(homesDir, e.Name(), usedFile))
		if err != nil { // of an older version
			info, err = e.Info()
		}
		if err == nil && e.IsDir() {
			homes = append(homes, home{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(homes, func(a, b home) int { return b.used.Compare(a.used) })
	asked, err := askedHomes(root)
	if err != nil {
		return err
	}
	var gone []string
	for _, h := range homes[min(keepHomes, len(homes)):] {
		if now.Sub(h.used) < maybeInUse || asked[h.name] {
			continue
		}
		if err := root.RemoveAll(path.Join(homesDir, h.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone = append(gone, h.name)
	}
	if len(gone) == 0 {
		return nil
	}
	return pruneRecords(root, gone)
}

// askedHomes names the homes of the last calls that asked something.
func askedHomes(root *workspace.Root) (map[string]bool, error) {
	files, err := root.OwnFiles(waitingDir)
	if err != nil {
		return nil, err
	}
	homes := map[string]bool{}
	for _, info := range files[max(0, len(files)-keepAsked):] {
		var p pending
		if raw, err := root.ReadFile(path.Join(waitingDir, info.Name()), maxRecord); err == nil && json.Unmarshal(raw, &p) == nil {
			homes[p.Session.Home] = true
		}
	}
	return homes, nil
}

// pruneRecords removes the records of sessions whose homes are gone: who asks for one is told that it is not there.
func pruneRecords(root *workspace.Root, gone []string) error {
	files, err := root.OwnFiles(sessionsDir)
	if err != nil {
		return err
	}
	for _, info := range files {
		name := path.Join(sessionsDir, info.Name())
		var s session
		raw, err := root.ReadFile(name, maxRecord)
		if err != nil || !strings.HasSuffix(name, ".json") || json.Unmarshal(raw, &s) != nil || !slices.Contains(gone, s.Home) {
			continue
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
