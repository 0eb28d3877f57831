package test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const maxManifest = 1 << 20 // bytes of a manifest that are read to recognise a project

// folder is a folder of the workspace. Files that cannot be read or are outside of the workspace are treated as missing.
type folder struct {
	root *workspace.Root
	dir  string // absolute, free of symlinks
}

func (f *folder) pathOf(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// hasFile reports whether there is a regular file of this name.
func (f *folder) hasFile(name string) bool {
	info, err := f.root.Stat(f.pathOf(name))
	return err == nil && info.Mode().IsRegular()
}

func (f *folder) hasDir(name string) bool {
	info, err := f.root.Stat(f.pathOf(name))
	return err == nil && info.IsDir()
}

// firstFile is the first of these files that is there, "" for none.
func (f *folder) firstFile(names ...string) string {
	for _, name := range names {
		if f.hasFile(name) {
			return name
		}
	}
	return ""
}

// readText returns the content of a file, "" if it is missing or larger than a manifest may be.
func (f *folder) readText(name string) string {
	data, err := f.root.ReadFile(f.pathOf(name), maxManifest)
	if err != nil {
		return ""
	}
	return string(data)
}

// globIn lists the files of a sub-folder whose names match a pattern, as paths relative to f.
func (f *folder) globIn(dir, pattern string) []string {
	entries, err := f.root.List(f.pathOf(dir))
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if ok, _ := path.Match(pattern, e.Name()); ok && !e.IsDir() {
			found = append(found, path.Join(dir, e.Name()))
		}
	}
	return found
}

// listParents yields f and the folders above it, up to the workspace.
func (f *folder) listParents() []*folder {
	var all []*folder
	for dir := f.dir; ; dir = filepath.Dir(dir) {
		if _, err := f.root.Rel(dir); err != nil {
			return all
		}
		all = append(all, &folder{f.root, dir})
		if dir == filepath.Dir(dir) {
			return all
		}
	}
}

// packageJSON holds the members of package.json that are needed here.
type packageJSON struct {
	Scripts         map[string]string `json:"scripts"`
	Dependencies    map[string]any    `json:"dependencies"`
	DevDependencies map[string]any    `json:"devDependencies"`
}

// npmPackage reads package.json; ok is false where there is none.
func (f *folder) npmPackage() (p packageJSON, ok bool) {
	text := f.readText("package.json")
	return p, text != "" && json.Unmarshal([]byte(text), &p) == nil
}

// findProgram returns the path of an executable and how to show it, which also works as a command in the project's folder.
// Folders of the project and above it come before PATH.
func (p *project) findProgram(name string, local ...string) (shown string, err error) {
	for _, dir := range local {
		for _, above := range p.listParents() {
			full := filepath.Join(dir, name)
			info, err := os.Stat(above.pathOf(full)) // installed packages may be links to a store elsewhere
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				continue
			}
			rel, err := filepath.Rel(p.dir, above.pathOf(full))
			if err == nil && !strings.Contains(rel, "/") {
				rel = "./" + rel
			}
			return rel, err
		}
	}
	_, err = proc.Resolve([]string{name}, p.env)
	return name, err
}
