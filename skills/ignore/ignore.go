// Package ignore decides which paths git ignores: it applies .gitignore files, .git/info/exclude and core.excludesFile as
// git does (gitignore(5), and the behaviour of git where that is silent). Begin with Rules, which a walk carries along; Tree
// answers for single paths.
//
//	rules := ignore.New(excludes).With("", rootGitignore)   // the later one decides over the earlier
//	rules.With("sub", subGitignore).Match("sub/a.o", false)
//
// The package opens no file and does not know which files are tracked: git never ignores a tracked file. Names are compared
// byte by byte, as git does with core.ignoreCase false. Untrusted patterns are safe: no pattern takes time that is
// exponential in its length, and a malformed one matches nothing, as in git.
package ignore

import (
	"bytes"
	"path"
	"strings"
)

// File is the name of the pattern files in a working tree.
const File = ".gitignore"

// MaxFile is how large a pattern file may be, in bytes, for those that read one; a larger one should count as empty.
// (git draws the line at 100 MiB.)
const MaxFile = 4 << 20

// Rules is a chain of pattern files, the one that decides first at its head. It never changes, so that a walk may share
// it among goroutines; nil is the chain that ignores nothing.
type Rules struct {
	outer *Rules
	base  string // folder of the file with a slash behind it, "" for the root
	list  *list
}

// New compiles pattern files of the whole tree, such as those of core.excludesFile and .git/info/exclude, the weakest
// first.
func New(files ...[]byte) *Rules {
	var r *Rules
	for _, data := range files {
		r = r.With("", data)
	}
	return r
}

// With adds the pattern file of a folder, "" or "." for the root, otherwise a clean slash-separated path relative to
// it; it decides over the files of r. r itself stays as it is.
func (r *Rules) With(dir string, data []byte) *Rules {
	l := compileFile(data)
	if l.isEmpty() {
		return r
	}
	base := ""
	if dir != "" && dir != "." {
		base = dir + "/"
	}
	return &Rules{outer: r, base: base, list: l}
}

// Match reports whether a path, clean and relative to the root, is ignored by the patterns for this path alone. A path
// below an ignored folder is always ignored: a walk does not enter such a folder, other callers use Tree.
// isDir is false for a symlink to a folder.
func (r *Rules) Match(name string, isDir bool) bool {
	baseName := name[strings.LastIndexByte(name, '/')+1:]
	for ; r != nil; r = r.outer {
		if !strings.HasPrefix(name, r.base) {
			continue
		}
		if ignored, decided := r.list.matchPath(name[len(r.base):], baseName, isDir); decided {
			return ignored
		}
	}
	return false
}

// Tree answers for any path of a working tree, reading the pattern files on the way. It is for one goroutine.
type Tree struct {
	outer   *Rules
	read    func(name string) []byte
	folders map[string]folder
}

type folder struct {
	rules   *Rules // for its content
	ignored bool
}

// NewTree makes a Tree over the rules that hold everywhere, nil for none. read returns the content of a file by its
// name relative to the root, nil if it does not exist; like git it should not follow a symlink. It is called once for each
// folder.
func NewTree(everywhere *Rules, read func(name string) []byte) *Tree {
	return &Tree{outer: everywhere, read: read, folders: map[string]folder{}}
}

// Ignored reports whether a path, clean and relative to the root, or a folder that holds it, is ignored.
func (t *Tree) Ignored(name string, isDir bool) bool {
	if name == "." || name == "" {
		return false
	}
	parent := t.rulesOf(path.Dir(name))
	return parent.ignored || parent.rules.Match(name, isDir)
}

func (t *Tree) rulesOf(dir string) folder {
	if f, ok := t.folders[dir]; ok {
		return f
	}
	f := folder{rules: t.outer}
	if dir != "." {
		outer := t.rulesOf(path.Dir(dir))
		f = folder{rules: outer.rules, ignored: outer.ignored || outer.rules.Match(dir, true)}
	}
	if !f.ignored { // git reads nothing in a folder that it ignores
		f.rules = f.rules.With(dir, t.read(path.Join(dir, File)))
	}
	t.folders[dir] = f
	return f
}

// compileFile reads the lines of a pattern file.
func compileFile(data []byte) *list {
	l := new(list)
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			line = line[:i]
		}
		l.addPattern(trimSpaces(string(line)))
	}
	return l
}

// trimSpaces cuts the spaces at the end, up to one with a backslash before it.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}
