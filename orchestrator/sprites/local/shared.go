package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// A shared Go build cache holds the compiled standard library, so that the first test in a fresh sprite does not compile
// it. WarmGo makes it, from the toolchain alone and in a sandbox of its own; sprites see it read-only. A sprite's own cache
// begins as links into it: the go command reads through them, and what it adds lies beside them, in the sprite's own
// folder. The links are made before the sprite's sandbox starts. No bytes are copied, nothing is checkpointed, and what a
// sprite does to its links concerns that sprite alone.
//
//	Config.Shared/go-build/<toolchain>/   00 … ff as in any GOCACHE; never changed once it has this name
//	Config.Shared/go-build/.warming/      being made
//	cache/<id>/go-build/                  the sprite's; sharedMark says which toolchain's links are in it
const sharedMark = "lattice-shared"

// refreshAfter is when a shared file is marked as used again: the go command drops what was not used for five days.
const refreshAfter = 24 * time.Hour

// SharedGo names the shared Go build cache in dir, a Config.Shared: the folder, and the toolchain that it is for. Both
// are "" when there is none.
func SharedGo(dir string) (folder, toolchain string) {
	entries, err := os.ReadDir(filepath.Join(dir, "go-build"))
	if err != nil {
		return "", ""
	}
	var newest time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || strings.HasPrefix(e.Name(), ".") || info.ModTime().Before(newest) {
			continue
		}
		newest, toolchain = info.ModTime(), e.Name()
	}
	if toolchain == "" {
		return "", ""
	}
	return filepath.Join(dir, "go-build", toolchain), toolchain
}

// shareGo gives a sprite that is about to start the links to the shared cache, and returns the folder that its box is to
// show, "" for none. A sprite without them works as well, only slower at first.
func (h *Host) shareGo(rec spriteRecord) string {
	if h.cfg.Shared == "" || h.confined().plain { // a plain box could change what it is shown
		return ""
	}
	folder, toolchain := SharedGo(h.cfg.Shared)
	if err := h.linkGo(rec.ID, folder, toolchain); err != nil {
		h.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("share the Go build cache")
	}
	return folder
}

// linkGo makes the sprite's Go cache anew when its links are not those of toolchain. What is in the sprite's folder was
// made by what ran in it, so nothing there is followed.
func (h *Host) linkGo(id, folder, toolchain string) error {
	cache, err := os.OpenRoot(h.cacheDir(id))
	if err != nil {
		return err
	}
	defer cache.Close()
	mark := path.Join("go-build", sharedMark)
	had, err := cache.ReadFile(mark)
	switch {
	case err == nil && string(had) == toolchain:
		return refresh(folder)
	case err != nil && toolchain == "":
		return nil
	}
	if err := cache.RemoveAll("go-build"); err != nil || toolchain == "" {
		return err
	}
	l := linker{cache: cache, folder: folder}
	l.uid, l.gid = h.owner()
	if err := l.links(); err != nil {
		return err
	}
	// The go command looks for what to drop when this is a day old.
	now := strconv.FormatInt(h.now().Unix(), 10)
	return errors.Join(l.file("trim.txt", now), l.file(sharedMark, toolchain), refresh(folder))
}

// linker fills a sprite's Go cache.
type linker struct {
	cache    *os.Root // of the sprite
	folder   string   // the shared cache on the host
	uid, gid int
}

func (l linker) dir(name string) error {
	if err := l.cache.Mkdir(name, 0o755); err != nil {
		return err
	}
	return l.give(name)
}

func (l linker) file(name, text string) error {
	name = path.Join("go-build", name)
	if err := l.cache.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return l.give(name)
}

func (l linker) give(name string) error {
	if l.uid < 0 {
		return nil
	}
	return l.cache.Lchown(name, l.uid, l.gid)
}

func (l linker) links() error {
	if err := l.dir("go-build"); err != nil {
		return err
	}
	return eachShared(l.folder, func(sub string, files []fs.DirEntry) error {
		if err := l.dir(path.Join("go-build", sub)); err != nil {
			return err
		}
		for _, f := range files {
			if err := l.cache.Symlink(path.Join(sandbox.SharedDir, sub, f.Name()), path.Join("go-build", sub, f.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachShared calls do with the files of each of the folders 00 to ff.
func eachShared(folder string, do func(sub string, files []fs.DirEntry) error) error {
	for i := range 256 {
		sub := fmt.Sprintf("%02x", i)
		entries, err := os.ReadDir(filepath.Join(folder, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var files []fs.DirEntry
		for _, e := range entries {
			if e.Type().IsRegular() {
				files = append(files, e)
			}
		}
		if err := do(sub, files); err != nil {
			return err
		}
	}
	return nil
}

// refresh marks the shared files as used. Sprites cannot do that themselves.
func refresh(folder string) error {
	now := time.Now()
	if info, err := os.Stat(filepath.Join(folder, "README")); err != nil || now.Sub(info.ModTime()) < refreshAfter {
		return ignoreNotExist(err)
	}
	err := eachShared(folder, func(sub string, files []fs.DirEntry) error {
		for _, f := range files {
			if err := os.Chtimes(filepath.Join(folder, sub, f.Name()), now, now); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, os.Chtimes(filepath.Join(folder, "README"), now, now))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
