package patch

import (
	"path"
	"strings"
)

// ModeSymlink is the mode of symlinks.
const ModeSymlink = "120000"

// Judge returns the reason why no patch may change a path, or "": the path leaves the tree, reaches into .git under a name
// that some file system takes for it, or is not a path. symlink says that the path will be a symlink.
func Judge(name string, symlink bool) (problem string) {
	switch {
	case name == "":
		return "is empty"
	case strings.ContainsRune(name, 0):
		return "holds a NUL byte"
	case path.IsAbs(name):
		return "is absolute"
	}
	// A backslash parts folders on some file systems.
	for part := range strings.FieldsFuncSeq(strings.ReplaceAll(name, "//", "/./"), func(r rune) bool { return r == '/' || r == '\\' }) {
		switch {
		case part == "..":
			return "leaves the repository"
		case part == ".":
			return "is not a plain path"
		case isDotGit(part):
			return "reaches into .git"
		case symlink && strings.EqualFold(dropIgnored(part), ".gitmodules"):
			return "makes .gitmodules a link"
		}
	}
	if strings.HasSuffix(name, "/") {
		return "is a folder"
	}
	return ""
}

// isDotGit reports whether some file system would take a name for .git: case, characters that HFS+ ignores, the short
// name and the trailing blanks, dots and streams of NTFS.
func isDotGit(part string) bool {
	name, _, _ := strings.Cut(dropIgnored(part), ":")
	name = strings.TrimRight(name, " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// dropIgnored removes the characters that HFS+ ignores in names.
func dropIgnored(part string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, part)
}

// Judge returns the first path of the files that no patch may change, or that leads through a symlink of the patch itself.
// The problem is "" if there is none.
func (files Files) Judge() (name, problem string) {
	links := map[string]bool{}
	for _, f := range files {
		if f.Mode == ModeSymlink {
			links[f.New] = true
		}
	}
	for _, f := range files {
		for _, name := range f.Names() {
			if problem := Judge(name, f.Mode == ModeSymlink); problem != "" {
				return name, problem
			}
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if links[dir] {
					return name, "goes through the link " + dir + ", which the patch makes"
				}
			}
		}
	}
	return "", ""
}

// Names returns the one or two paths of the change.
func (f File) Names() []string {
	switch {
	case f.Old == "" || f.Old == f.New:
		return []string{f.New}
	case f.New == "":
		return []string{f.Old}
	}
	return []string{f.Old, f.New}
}
