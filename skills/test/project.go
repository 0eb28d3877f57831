package test

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// project is a folder whose tests are run.
type project struct {
	folder
	top     string   // the repository's folder, absolute; files in the report are relative to it
	below   string   // the folder that the caller named, relative to dir
	args    []string // the caller's
	env     []string
	scratch string // a private folder for reports, absolute
	made    int    // paths in it
	base    string // the folder that names in the report being read are relative to; "" for dir
	known   map[string]string
}

// reportPath returns a new path for a report. Its folder is made when a command is run.
func (p *project) reportPath(name string) string {
	p.made++
	return filepath.Join(p.scratch, strconv.Itoa(p.made), name)
}

// topOf is the repository around a folder, or the folder itself.
func topOf(f *folder) string {
	for _, above := range f.listParents() {
		if _, err := above.root.Lstat(above.pathOf(".git")); err == nil {
			return above.dir
		}
	}
	return f.dir
}

// cleanCase makes the names of a case relative to the repository.
func (p *project) cleanCase(c *results.Case) {
	for _, text := range []*string{&c.ID, &c.Name, &c.Suite, &c.Message, &c.Detail} {
		*text = p.shortenPaths(*text)
	}
	if c.File != "" {
		c.File = p.resolveFile(c.File, c.Failing())
	}
}

// shortenPaths takes the project's own folders out of a text.
func (p *project) shortenPaths(text string) string {
	if !strings.Contains(text, p.top) {
		return text
	}
	text = strings.ReplaceAll(text, "file://"+p.top+"/", "")
	return strings.ReplaceAll(text, p.top+"/", "")
}

// sourceFolders returns the folders below a module that names of classes are relative to.
func sourceFolders() []string {
	return []string{"", "src/test/java", "src/test/kotlin", "src/test/groovy", "src/test/scala", "src/main/java", "src/main/kotlin"}
}

// resolveFile is a file relative to the repository. look allows to search for the folder that a relative name is relative to:
// runners disagree about it in projects of several packages.
func (p *project) resolveFile(file string, look bool) string {
	if file == "" { // a message that names no file
		return ""
	}
	file = filepath.Clean(filepath.FromSlash(strings.TrimPrefix(file, "file://")))
	base := cmp.Or(p.base, p.dir)
	full := file
	if !filepath.IsAbs(file) {
		full = filepath.Join(base, file)
		if look {
			full = p.findFile(base, file)
		}
	}
	rel, err := filepath.Rel(p.top, full)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.ToSlash(full)
	}
	return filepath.ToSlash(rel)
}

func (p *project) findFile(base, file string) string {
	key := base + "\x00" + file
	if full, ok := p.known[key]; ok {
		return full
	}
	found := filepath.Join(base, file)
	for _, above := range (&folder{p.root, base}).listParents() {
		hit := ""
		for _, sources := range sourceFolders() {
			if name := filepath.Join(sources, file); hit == "" && above.hasFile(name) {
				hit = above.pathOf(name)
			}
		}
		if hit != "" {
			found = hit
			break
		}
		if above.dir == p.top {
			break
		}
	}
	if p.known == nil {
		p.known = map[string]string{}
	}
	if len(p.known) < 10_000 {
		p.known[key] = found
	}
	return found
}

// relativePath is a folder or file as the workspace's users name it.
func (p *project) relativePath(full string) string {
	rel, err := p.root.Rel(full)
	if err != nil {
		return full
	}
	return rel
}
