package guard

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Lock is a file by which git keeps others from changing another one, such as index.lock.
type Lock struct {
	name string
	info fs.FileInfo
}

// CheckFilesFor is [CheckFiles] for a call. In a sprite, whose processes are all visible, it removes the locks that killed processes
// left, such as that of an agent's own git, before a verb that would fail at them.
func CheckFilesFor(c *skill.Call, at engine.Location) error {
	locks, err := CheckFiles(at)
	if err != nil || c.Class == "read" || c.SpriteID == "" {
		return err
	}
	removed, err := RemoveStale(at, locks)
	if len(removed) > 0 {
		c.Warn("stale_lock_removed", "a process that was killed left "+strings.Join(removed, " and "))
	}
	return err
}

// RemoveStaleOf is [RemoveStale] for the repository of a folder; without one it removes nothing.
func RemoveStaleOf(root *workspace.Root, folder string) (removed []string, err error) {
	at, err := Locate(root, folder)
	if err != nil {
		return nil, nil
	}
	locks, err := CheckFiles(at)
	if err != nil {
		return nil, nil // a verb refuses it
	}
	return RemoveStale(at, locks)
}

// RemoveStale removes the locks whose owners were killed, and returns their names relative to the workspace. As long as a git works
// on the repository, or a process has a lock open, it removes none; it waits up to lockPatience for that to end, as the upkeep that git
// starts in the background after a commit soon does. Every process that can own a lock must be visible in /proc, as it is in a sprite.
func RemoveStale(at engine.Location, locks []Lock) (removed []string, err error) {
	deadline := time.Now().Add(lockPatience)
	for free := 0; free < 2; { // processes come and go while they are looked at
		if locks = slices.DeleteFunc(locks, func(l Lock) bool { return !l.isThere(at) }); len(locks) == 0 {
			return nil, nil
		}
		if free++; isInUse(at, locks) {
			if free = 0; time.Now().After(deadline) {
				return nil, nil
			}
		}
		time.Sleep(lockPause)
	}
	for _, l := range locks {
		if !l.isThere(at) {
			continue
		}
		if err := at.Root.Remove(l.rel(at)); err != nil {
			return removed, err
		}
		removed = append(removed, l.rel(at))
	}
	return removed, nil
}

const (
	lockPause    = 50 * time.Millisecond // between two looks at the processes
	lockPatience = 2 * time.Second       // for a git that works on the repository to end
)

func (l Lock) rel(at engine.Location) string { return strings.TrimPrefix(l.name, at.Root.Dir()+"/") }

// isThere reports whether the lock is still the one that was found, and not one that was made later.
func (l Lock) isThere(at engine.Location) bool {
	info, err := at.Root.Lstat(l.rel(at))
	return err == nil && os.SameFile(info, l.info) && info.ModTime().Equal(l.info.ModTime())
}

// isInUse reports whether a git works on the repository, or a process has one of the locks open, as other programs have that lock. A
// git counts unless it certainly works elsewhere, and where processes cannot be seen, the repository is in use.
func isInUse(at engine.Location, locks []Lock) bool {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return true
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return true
	}
	for _, p := range processes {
		stat, err := os.ReadFile(p + "/stat") // pid (name) state …, where the name may hold anything
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || open < 0 || end+2 >= len(stat) || stat[end+2] == 'Z' || stat[end+2] == 'X' {
			continue // it has ended
		}
		name := string(stat[open+1 : end])
		if (name == "git" || strings.HasPrefix(name, "git-")) && !worksElsewhere(p, at) || holdsLock(p, locks) {
			return true
		}
	}
	return false
}

// worksElsewhere reports whether a git certainly works on another repository: its folder is outside of this one, and so are all paths
// in its arguments and its environment.
func worksElsewhere(process string, at engine.Location) bool {
	ended := func(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
	dir, err := os.Readlink(process + "/cwd")
	if err != nil {
		return ended(err)
	}
	words := []string{dir}
	for _, file := range []string{"/cmdline", "/environ"} {
		text, err := os.ReadFile(process + file)
		if err != nil {
			return ended(err)
		}
		words = append(words, strings.Split(string(text), "\x00")...)
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		if _, value, ok := strings.Cut(word, "="); ok { // such as --git-dir=… or GIT_DIR=…
			word = value
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		real, err := filepath.EvalSymlinks(word)
		return err == nil && slices.ContainsFunc([]string{at.Dir, at.GitDir, at.CommonDir}, func(folder string) bool { return strings.HasPrefix(real+"/", folder+"/") })
	})
}

// holdsLock reports whether a process has one of the locks open.
func holdsLock(process string, locks []Lock) bool {
	files, err := os.ReadDir(process + "/fd")
	if err != nil {
		return false // another user's, or it has ended
	}
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		target, err := os.Readlink(process + "/fd/" + f.Name())
		return err == nil && slices.ContainsFunc(locks, func(l Lock) bool { return l.name == target })
	})
}
