package test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

const (
	maxReports = 5_000
	maxLooked  = 100_000 // entries looked at for reports
	maxDepth   = 16
)

// stamps hold the reports that exist before a run. A report that does not change belongs to another run.
type stamps map[string]fs.FileInfo

// findReports lists the files that match patterns: below the project's folder, or in the private one. ** matches any
// folders. Folders of dependencies and of git are left out.
func (p *project) findReports(patterns []string) stamps {
	found := stamps{}
	for _, pattern := range patterns {
		base := p.dir
		if rest, ok := strings.CutPrefix(pattern, p.scratch+"/"); ok {
			base, pattern = p.scratch, rest
		}
		parts := strings.Split(path.Clean(pattern), "/")
		for len(parts) > 1 && !strings.ContainsAny(parts[0], "*?[\\") {
			base, parts = filepath.Join(base, parts[0]), parts[1:]
		}
		looked := 0
		p.walkReports(base, nil, parts, &looked, found)
	}
	return found
}

func (p *project) walkReports(dir string, at, pattern []string, looked *int, found stamps) {
	entries, err := p.root.List(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if *looked++; *looked > maxLooked || len(found) >= maxReports {
			return
		}
		here := append(at[:len(at):len(at)], e.Name())
		full := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if name := e.Name(); len(here) < maxDepth && name != "node_modules" && name != ".git" && name != ".lattice" {
				p.walkReports(full, here, pattern, looked, found)
			}
		case matchesPath(pattern, here):
			if info, err := p.root.Lstat(full); err == nil {
				found[full] = info
			}
		}
	}
}

// matchesPath matches a path against a pattern, segment by segment. It goes back to the last ** only: to try all ways of distributing
// the folders over several of them takes exponential time, and finds nothing more.
func matchesPath(pattern, name []string) bool {
	at, anyFolders, next := 0, -1, 0 // anyFolders is the last ** that was passed, next the first segment that it has not taken
	for i := 0; i < len(name); {
		switch {
		case at < len(pattern) && pattern[at] == "**":
			anyFolders, next = at, i
			at++
		case at < len(pattern) && matchesName(pattern[at], name[i]):
			at++
			i++
		case anyFolders >= 0:
			next++
			at, i = anyFolders+1, next
		default:
			return false
		}
	}
	for at < len(pattern) && pattern[at] == "**" {
		at++
	}
	return at == len(pattern)
}

func matchesName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// listChanged are the reports that were made or written since, in order.
func (before stamps) listChanged(now stamps) []string {
	var names []string
	for name, info := range now {
		old, was := before[name]
		if !was || !os.SameFile(old, info) || !old.ModTime().Equal(info.ModTime()) || old.Size() != info.Size() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readReports reads the fresh reports into set. It returns a description of their problems, or "".
func (p *project) readReports(one *plan, before stamps, set *results.Set) string {
	var problems []string
	now := p.findReports(one.reports)
	names := before.listChanged(now)
	for _, name := range names {
		if !now[name].Mode().IsRegular() {
			problems = append(problems, fmt.Sprintf("%s is no regular file", p.relativePath(name)))
			continue
		}
		if err := p.readReport(one, name, set); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", path.Base(name), err))
		}
	}
	p.base = ""
	switch {
	case len(names) == 0 && len(now) > 0:
		return "no report was written; those that are there are older than the run"
	case len(names) == 0:
		return "no report was written"
	}
	return strings.Join(problems[:min(len(problems), 5)], "; ")
}

func (p *project) readReport(one *plan, name string, set *results.Set) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	suite := ""
	if one.suite != nil {
		suite = one.suite(name)
	}
	p.base = ""
	if rel, err := filepath.Rel(p.dir, name); one.module != nil && err == nil {
		p.base = filepath.Join(p.dir, filepath.FromSlash(one.module(filepath.ToSlash(rel))))
	}
	return one.format.Parse(f, suite, set)
}
