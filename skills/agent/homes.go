package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/agent/scrub"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	// usedFile is a file in a home. A call writes it when it starts to use the home, so its time is that of the last use.
	usedFile = ".spritekit-used"

	keepHomes   = 32 // the most recently used
	keepAsked   = 64 // homes of the last calls that waited for an answer, in addition to those
	maybeInUse  = 3 * time.Hour
	pruneBeyond = keepHomes + 8 // listing them is slow, so it is not done for every call
)

// pruneOldHomes bounds the disk space of sessions: the home of an agent has some hundred KiB, and a loop makes one for each
// iteration. It removes the oldest homes and the records of their sessions. It keeps homes that a running call may use, which
// no call does for that long, and those of calls that may still be answered.
func pruneOldHomes(root *workspace.Root, now time.Time) error {
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
		if err != nil { // left by an older version
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

// askedHomes returns the homes of the last calls that waited for an answer.
func askedHomes(root *workspace.Root) (map[string]bool, error) {
	files, err := root.Runtime().List(waitingDir)
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

// pruneRecords removes the records of sessions whose homes are gone, so that resuming one fails with not_found.
func pruneRecords(root *workspace.Root, gone []string) error {
	files, err := root.Runtime().List(sessionsDir)
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

// removeLocks removes the locks that a killed process of an agent left in its home, and in a sprite also those in the repository.
func (l *launch) removeLocks() error {
	root := l.call.Root
	if l.call.SpriteID != "" {
		if _, err := guard.RemoveStaleOf(root, l.spec.Dir); err != nil {
			return fmt.Errorf("remove a lock that an agent left: %w", err)
		}
	}
	for _, pattern := range l.adapter.Locks {
		found, err := filepath.Glob(root.Own(l.files.home + strings.TrimPrefix(pattern, "{home}")))
		if err != nil {
			return err
		}
		for _, name := range found {
			if err := root.RemoveAll(name); err != nil {
				return fmt.Errorf("remove a lock that the agent left: %w", err)
			}
		}
	}
	return nil
}

// scrubHome overwrites keys in the files that the agent left in its private home, such as its sessions, because checkpoints
// keep them. The agent has ended. Copies elsewhere, and checkpoints that it took while it ran, are not changed.
func (l *launch) scrubHome() {
	if l.files.home == "" || !l.secrets.Any() {
		return
	}
	if err := scrub.Folder(l.call.Root, l.files.home, l.secrets); err != nil {
		l.call.Warn("secret_not_scrubbed", fmt.Sprintf("a key may still be in the agent's files: %v", err))
	}
}

// ScrubHomes overwrites values in the homes of all agents of a workspace, also of a running one. state is the folder of the
// workspace's .lattice if that is elsewhere.
func ScrubHomes(dir, state string, values []string) error {
	s := redact.New(values...)
	if !s.Any() {
		return nil
	}
	root, err := workspace.OpenWithState(dir, state)
	if err != nil {
		return err
	}
	err = scrub.Folder(root, homesDir, s)
	if errors.Is(err, fs.ErrNotExist) { // no agent ran here, or it removed a file at the same time
		err = nil
	}
	return errors.Join(err, root.Close())
}
