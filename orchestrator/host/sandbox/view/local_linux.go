package view

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// maxLocal bounds the entries of a folder of the host's that is shown entry by entry. A larger one is shown as a whole, read-only.
const maxLocal = 64

// showLocal shows a /usr/local that the sprite installs to, with the host's own below it: as an overlay, or, where the root is one
// tree, as the tree's folder with mounts of the host's entries.
func (p *Plan) showLocal(c spec.Config) {
	if tree, ok := c.Local(); ok {
		p.Steps = append(p.Steps, Step{Kind: StepOverlay, Path: spec.LocalPath, Tree: tree, Own: true, Local: true})
		return
	}
	if c.Root.Dir == "" || !c.HasLocal() {
		return
	}
	p.Steps = append(p.Steps, Step{Kind: StepBind, Path: spec.LocalPath, Source: c.Root.Dir, Own: true, Local: true})
	for _, name := range []string{"bin", "include", "lib", "share"} {
		p.Steps = append(p.Steps, Step{Kind: stepDir, Path: path.Join(spec.LocalPath, name), Mode: 0o755})
	}
	entries, err := os.ReadDir("/" + spec.LocalPath)
	if err == nil && len(entries) <= maxLocal {
		p.mergeLocal(spec.LocalPath, entries)
	}
}

// mergeLocal shows entries of a folder of the host's in the sprite's own folder at the same path.
func (p *Plan) mergeLocal(dir string, entries []fs.DirEntry) {
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Type() == fs.ModeSymlink:
			if target, err := os.Readlink("/" + name); err == nil {
				p.addLink(name, target)
			}
		case e.Type().IsRegular():
			p.Steps = append(p.Steps, Step{Kind: StepBind, Path: name, Source: "/" + name, File: true, ReadOnly: true})
		case e.IsDir():
			below, err := os.ReadDir("/" + name)
			if err != nil || len(below) > maxLocal || !installsInto(name) {
				p.addBind("/"+name, name)
				continue
			}
			p.Steps = append(p.Steps, Step{Kind: stepDir, Path: name, Mode: 0o755})
			p.mergeLocal(name, below)
		}
	}
}

// installsInto reports whether several programs install into a folder below /usr/local.
func installsInto(name string) bool {
	name, _ = filepath.Rel(spec.LocalPath, name)
	return slices.ContainsFunc([]string{"bin", "etc", "games", "include", "lib", "sbin", "share", "src", "lib/node_modules", "lib/python*", "lib/python*/dist-packages", "lib/python*/site-packages"}, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}
