package share

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

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// A shared Go build cache holds the compiled standard library, so that the first test in a fresh sprite does not compile
// it. WarmGo makes it, from the toolchain alone and in a sandbox of its own; sprites see it read-only. A sprite's own cache
// begins as links into it: the go command reads through them, and new files lie next to them, in the sprite's own
// folder. The links are made before the sprite's sandbox starts. No bytes are copied, nothing is checkpointed, and the changes
// that a sprite makes to its links concern that sprite alone.
//
//	Config.Shared/go-build/<toolchain>/   00 … ff as in any GOCACHE; never changed once it has this name
//	Config.Shared/go-build/.warming/      being made
//	links/<toolchain>/                    the links, once for each host; sprites get further names of them, which cost nothing
//	cache/<id>/go-build/                  the sprite's; sharedMark says which toolchain's links are in it
const sharedMark = "lattice-shared"

// refreshAfter is when a shared file is marked as used again: the go command drops files that were not used for five days.
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

// GoCaches has the Go build caches of sprites begin with links to a shared one.
type GoCaches struct {
	*core.Core
	confiner *confine.Confiner
	linking  boltfile.Lock // guards the folder of links
}

// Share gives a sprite that is about to start the links to the shared cache, and returns the folder that its box is to
// show, "" for none. A sprite without them works as well, only slower at first.
func (g *GoCaches) Share(rec records.Sprite) string {
	if g.Config.Shared == "" || g.confiner.Confined().Plain || rec.Image != "" { // a plain box could change shared files, and an image has its own toolchain
		return ""
	}
	folder, toolchain := SharedGo(g.Config.Shared)
	if err := g.linkGo(rec.ID, folder, toolchain); err != nil {
		g.Config.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("share the Go build cache")
	}
	return folder
}

// linkGo recreates the sprite's Go cache when its links are not those of toolchain. The content of the sprite's folder was
// made by the sprite's programs, so links there are not followed.
func (g *GoCaches) linkGo(id, folder, toolchain string) error {
	cache, err := os.OpenRoot(g.CacheDir(id))
	if err != nil {
		return err
	}
	defer cache.Close()
	mark := path.Join("go-build", sharedMark)
	had, err := cache.ReadFile(mark)
	switch {
	case err == nil && string(had) == toolchain:
		return refreshTimes(folder)
	case err != nil && toolchain == "":
		return nil
	}
	if err := tree.Remove(filepath.Join(g.CacheDir(id), "go-build")); err != nil || toolchain == "" {
		return err
	}
	links, err := g.linkFolder(folder, toolchain)
	if err != nil {
		return err
	}
	l := linker{cache: cache, links: links}
	l.uid, l.gid = g.confiner.Owner()
	if err := l.fillCache(); err != nil {
		return err
	}
	// The go command drops old files when this is a day old.
	now := strconv.FormatInt(g.Now().Unix(), 10)
	return errors.Join(l.writeFile("trim.txt", now), l.writeFile(sharedMark, toolchain), refreshTimes(folder))
}

// linker fills a sprite's Go cache.
type linker struct {
	cache    *os.Root // of the sprite
	links    string   // the host's
	uid, gid int
}

func (l linker) makeDir(name string) error {
	if err := l.cache.Mkdir(name, 0o755); err != nil {
		return err
	}
	return l.giveToUser(name)
}

func (l linker) writeFile(name, text string) error {
	name = path.Join("go-build", name)
	if err := l.cache.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return l.giveToUser(name)
}

func (l linker) giveToUser(name string) error {
	if l.uid < 0 {
		return nil
	}
	return l.cache.Lchown(name, l.uid, l.gid)
}

// fillCache gives every link of the host's a name in the sprite's cache.
func (l linker) fillCache() error {
	if err := l.makeDir("go-build"); err != nil {
		return err
	}
	return eachFolder(l.links, func(sub string, links []fs.DirEntry) error {
		own := path.Join("go-build", sub)
		if err := l.makeDir(own); err != nil {
			return err
		}
		from, err := os.Open(filepath.Join(l.links, sub))
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := l.cache.Open(own)
		if err != nil {
			return err
		}
		defer to.Close()
		for _, link := range links {
			err := unix.Linkat(int(from.Fd()), link.Name(), int(to.Fd()), link.Name(), 0)
			if err != nil { // a file system has a limit of names
				err = l.cache.Symlink(sharedPath(sub, link.Name()), path.Join(own, link.Name()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sharedPath returns the path of a file of the shared cache in a box.
func sharedPath(sub, name string) string { return path.Join(spec.SharedDir, sub, name) }

// linkFolder makes the host's folder of links to the shared cache, once for each toolchain, and returns its path.
func (g *GoCaches) linkFolder(folder, toolchain string) (string, error) {
	g.linking.Lock()
	defer g.linking.Unlock()
	final := filepath.Join(g.Config.Dir, "links", toolchain)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	// Those of other toolchains go: sprites have names of their own for them.
	if err := core.RemoveAll(filepath.Dir(final)); err != nil {
		return "", err
	}
	staged, err := os.MkdirTemp(g.TempDir(), "links-")
	if err != nil {
		return "", err
	}
	err = eachFolder(folder, func(sub string, files []fs.DirEntry) error {
		if err := os.Mkdir(filepath.Join(staged, sub), 0o755); err != nil {
			return err
		}
		for _, f := range files {
			if !f.Type().IsRegular() {
				continue
			}
			if err := os.Symlink(sharedPath(sub, f.Name()), filepath.Join(staged, sub, f.Name())); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Dir(final), 0o700), os.Rename(staged, final))
	}
	if err != nil {
		return "", errors.Join(err, core.RemoveAll(staged))
	}
	return final, nil
}

// eachFolder calls do with the entries of each of the folders 00 to ff.
func eachFolder(dir string, do func(sub string, entries []fs.DirEntry) error) error {
	for i := range 256 {
		sub := fmt.Sprintf("%02x", i)
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := do(sub, entries); err != nil {
			return err
		}
	}
	return nil
}

// refreshTimes marks the shared files as used. Sprites cannot do that themselves.
func refreshTimes(folder string) error {
	now := time.Now()
	if info, err := os.Stat(filepath.Join(folder, "README")); err != nil || now.Sub(info.ModTime()) < refreshAfter {
		return ignoreNotExist(err)
	}
	err := eachFolder(folder, func(sub string, files []fs.DirEntry) error {
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

func NewGoCaches(c *core.Core, confiner *confine.Confiner) *GoCaches {
	return &GoCaches{Core: c, confiner: confiner}
}
