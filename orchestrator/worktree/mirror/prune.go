package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// PruneOptions says which mirrors Prune removes: those that were not used for OlderThan, and then, the longest
// unused first, as many as it takes to come below MaxBytes. Zero leaves a rule out.
type PruneOptions struct {
	OlderThan time.Duration
	MaxBytes  int64
	Now       time.Time
	DryRun    bool
}

// Pruned is a mirror that was removed, or would be in a dry run.
type Pruned struct {
	URL   string    `json:"url"` // credentials removed
	Bytes int64     `json:"bytes"`
	Used  time.Time `json:"used"` // last

	name string
}

// Prune removes mirrors by rule, never one that is in use at this moment. The next run of such a URL fetches all
// of it again. The result lists the removed mirrors even if there is an error.
func (s Store) Prune(ctx context.Context, o PruneOptions) ([]Pruned, error) {
	all, err := s.listMirrors()
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	slices.SortFunc(all, func(a, b Pruned) int { return a.Used.Compare(b.Used) })
	total := int64(0)
	for _, m := range all {
		total += m.Bytes
	}
	var pruned []Pruned
	var failed []error
	for _, m := range all {
		old := o.OlderThan > 0 && o.Now.Sub(m.Used) >= o.OlderThan
		if !old && (o.MaxBytes <= 0 || total <= o.MaxBytes) {
			continue
		}
		removed, err := s.removeMirror(m.name, o.DryRun)
		if err != nil {
			failed = append(failed, fmt.Errorf("remove the mirror of %s: %w", m.URL, err))
		}
		if removed {
			total -= m.Bytes
			pruned = append(pruned, m)
		}
		if ctx.Err() != nil {
			return pruned, ctx.Err()
		}
	}
	return pruned, errors.Join(failed...)
}

func (s Store) listMirrors() ([]Pruned, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var all []Pruned
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".git")
		if !ok || !e.IsDir() {
			continue
		}
		m := Pruned{name: name, URL: "an unknown URL"}
		if info, err := os.Stat(filepath.Join(s.Dir, name+".lock")); err == nil {
			m.Used = info.ModTime()
		}
		if text, err := os.ReadFile(filepath.Join(s.Dir, e.Name(), urlMark)); err == nil {
			m.URL = gitexec.CleanLine(string(text))
		}
		err := filepath.WalkDir(filepath.Join(s.Dir, e.Name()), func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it changes while we look
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				m.Bytes += info.Size()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// removeMirror removes a mirror unless it is in use. It keeps the lock file, on which other processes may be waiting.
func (s Store) removeMirror(name string, dry bool) (removed bool, err error) {
	lock, err := os.OpenFile(filepath.Join(s.Dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	case dry:
		return true, nil
	}
	err = os.RemoveAll(filepath.Join(s.Dir, name+".git"))
	return err == nil, err
}
