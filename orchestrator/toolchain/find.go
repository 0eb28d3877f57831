package toolchain

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Program is a program that was found on this machine.
type Program struct {
	Name string
	File string // as PATH finds it
	Real string // File with links resolved
	// Show lists the narrowest paths that let it run in a sprite, checked; empty when sprites see it anyway, or when no
	// path would help.
	Show []string
	// Seen says that it lies in the system's own folders, which every sprite sees.
	Seen bool
	// Note names a peculiarity, such as that File is a shim; "" if there is none.
	Note string
}

// shown lists the folders of which sprites see all.
var shown = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}

// Find looks for the named programs in PATH, in the order of names, and leaves out those that are not there.
func (m Machine) Find(names ...string) []Program {
	var found []Program
	for _, name := range names {
		if p, ok := m.findProgram(name); ok {
			found = append(found, p)
		}
	}
	return found
}

// Default lists the paths that sprites are shown without being asked for: the Go tree that `go` on PATH belongs to, when
// it lies outside the system's folders. It holds a published toolchain and nothing of the user's.
func (m Machine) Default() []string {
	p, ok := m.findProgram("go")
	if !ok || p.Seen {
		return nil
	}
	return p.Show
}

func (m Machine) findProgram(name string) (Program, bool) {
	for _, dir := range filepath.SplitList(m.Path) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || !isExecutable(file) {
			continue
		}
		p := Program{Name: name, File: file}
		var err error
		if p.Real, err = filepath.EvalSymlinks(file); err != nil {
			continue
		}
		m.proposePaths(&p)
		return p, true
	}
	return Program{}, false
}

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// proposePaths fills in the --tool paths that show p to sprites.
func (m Machine) proposePaths(p *Program) {
	real, note := m.behindShim(p)
	if note != "" {
		p.Note = note
		if real == "" {
			return
		}
	}
	if isShown(p.File) && isShown(real) && note == "" {
		p.Seen = true
		return
	}
	file := p.File
	if note != "" {
		file = real
	}
	for _, option := range pathOptions(file, real) {
		if checked, ok := m.checkAll(option); ok {
			p.Show = checked
			return
		}
	}
	p.Note = cmp.Or(p.Note, "it lies where nothing can be shown to sprites from")
}

func isShown(path string) bool {
	return slices.ContainsFunc(shown, func(dir string) bool { return isWithin(path, dir) })
}

// pathOptions lists sets of paths that would show the program, the best first: its installation prefix, its bin folder
// with the place that its link leads to, the file alone.
func pathOptions(file, real string) [][]string {
	dir, target := filepath.Dir(file), filepath.Dir(real)
	var sets [][]string
	// Installation prefixes hold more than the one file: libraries, the modules of an interpreter.
	for _, bin := range []string{target, dir} {
		prefix := filepath.Dir(bin)
		if filepath.Base(bin) == "bin" && filepath.Base(prefix) != ".cargo" && isWithin(real, prefix) {
			sets = append(sets, []string{prefix})
		}
	}
	if modules := upTo(real, "node_modules"); modules != "" {
		sets = append(sets, []string{dir, modules})
	}
	// A program that is one file comes without the rest of its folder.
	return append(sets, []string{file}, []string{dir})
}

// upTo is the part of path up to and including the first folder of that name, "" when there is none.
func upTo(path, folder string) string {
	before, _, ok := strings.Cut(path, "/"+folder+"/")
	if !ok {
		return ""
	}
	return before + "/" + folder
}

func (m Machine) checkAll(paths []string) ([]string, bool) {
	var all []string
	for _, path := range paths {
		if isShown(path) {
			continue
		}
		checked, err := m.Check(path)
		if err != nil {
			return nil, false
		}
		all = append(all, checked)
	}
	return all, len(all) > 0
}

// behindShim follows the well-known version managers from their shim to the program that it would start. Without a shim
// it returns the real file and no note; real is "" when the manager does not tell.
func (m Machine) behindShim(p *Program) (real, note string) {
	switch base := filepath.Base(p.Real); {
	case base == "rustup" && p.Name != "rustup":
		home := filepath.Join(m.Home, ".rustup")
		tool := filepath.Join(home, "toolchains", quotedValue(filepath.Join(home, "settings.toml"), "default_toolchain"), "bin", p.Name)
		return resolveExecutable(tool), "a shim of rustup"
	case filepath.Base(filepath.Dir(p.File)) == "shims" && isWithin(p.File, filepath.Join(m.Home, ".pyenv")):
		root := filepath.Join(m.Home, ".pyenv")
		return pyenvProgram(root, p.Name), "a shim of pyenv"
	case base == "mise" && p.Name != "mise", base == "volta-shim", filepath.Base(filepath.Dir(p.File)) == "shims":
		return "", "a shim of a version manager; put the folder of the version itself first in PATH, or show it with --tool"
	case base == "snap" && p.Name != "snap":
		return "", "a snap, which cannot run in a sprite; install it another way"
	}
	return p.Real, ""
}

func resolveExecutable(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil && isExecutable(real) {
		return real
	}
	return ""
}

// pyenvProgram finds the program in the first of the global versions that has it.
func pyenvProgram(root, name string) string {
	text, err := os.ReadFile(filepath.Join(root, "version"))
	if err != nil {
		return ""
	}
	for version := range strings.FieldsSeq(string(text)) {
		if version == filepath.Base(version) {
			if file := resolveExecutable(filepath.Join(root, "versions", version, "bin", name)); file != "" {
				return file
			}
		}
	}
	return ""
}

// quotedValue reads the line `key = "value"` of a simple settings file; "" when there is none.
func quotedValue(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(name) == key {
			return filepath.Base(strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return ""
}

// maxLinks bounds the entries of one folder that Dangling looks at.
const maxLinks = 500

// Dangling names the links in the program folders of tools whose targets sprites would not see, as "link → target". tools
// are all paths that are shown.
func Dangling(tools []string) []string {
	var out []string
	for _, tool := range tools {
		dir := tool
		if bin := filepath.Join(tool, "bin"); isDir(bin) {
			dir = bin
		}
		entries, err := readSome(dir)
		if err != nil {
			continue // a file, or gone: Check has judged it
		}
		for _, e := range entries {
			link := filepath.Join(dir, e.Name())
			if e.Type()&fs.ModeSymlink == 0 || !isExecutable(link) {
				continue
			}
			target, err := filepath.EvalSymlinks(link)
			visible := func(path string) bool {
				return isShown(path) || slices.ContainsFunc(tools, func(t string) bool { return isWithin(path, t) })
			}
			if err == nil && !visible(target) {
				out = append(out, link+" → "+target)
			}
		}
	}
	slices.Sort(out)
	return out
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readSome(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxLinks)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
