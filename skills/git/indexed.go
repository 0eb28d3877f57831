package git

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	maxIndex     = 256 << 20 // bytes
	maxNesting   = 8         // submodules in submodules
	modeLink     = 0o160000  // of a submodule
	indexHeader  = 12        // bytes
	indexStat    = 40        // of an entry, before its id
	indexMode    = 24        // where in an entry its mode is
	flagExtended = 0x4000    // two more bytes of flags follow
)

// judgeIndex refuses what git would believe of an index when it writes: names outside the work tree or in .git, which it
// writes and removes when it restores, stashes or checks out; and submodules that are checked out and whose own
// configuration runs programs, because git add and git stash run git in there.
func judgeIndex(at engine.Location, trust bool) error { return judgeTree(at, trust, 0) }

func judgeTree(at engine.Location, trust bool, depth int) error {
	files := []string{filepath.Join(at.GitDir, "index")}
	shared, err := filepath.Glob(filepath.Join(at.GitDir, "sharedindex.*")) // of a split index
	if err != nil {
		return err
	}
	format, _ := at.Config.Value("extensions", "", "objectformat")
	var links []string
	for _, file := range append(files, shared...) {
		data, err := at.Root.ReadFile(file, maxIndex)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		bad := ""
		known := eachEntry(data, format == "sha256", func(mode uint32, name []byte) {
			if mode == modeLink {
				links = append(links, string(name))
			}
			if bad == "" && isBadEntry(name) {
				bad = string(name)
			}
		})
		switch {
		case bad != "":
			return fault.Unsafe("unsafe_path", "the index of %s names %q, which %s", at.Name, bad, patch.Judge(bad, false)).
				WithHint("git does not write such an index; clone the repository again")
		case !known && len(data) > 0:
			return fault.Failed("bad_index", "the index of %s is damaged, or of a version that is not known", at.Name).
				WithHint("remove %s, then stage the files again", path.Base(file))
		}
	}
	for _, name := range links {
		if err := judgeSubmodule(at.Root, path.Join(at.Name, name), trust, depth); err != nil {
			return err
		}
	}
	return nil
}

// judgeSubmodule looks at the configuration of a submodule, and into its own ones, if it is checked out.
func judgeSubmodule(root *workspace.Root, name string, trust bool, depth int) error {
	if _, err := root.Lstat(path.Join(name, ".git")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	at, err := locate(root, name)
	if failed := (*skill.Error)(nil); errors.As(err, &failed) && failed.Code == "not_a_repository" {
		return nil // git does not run there either
	}
	if err != nil {
		return err
	}
	config, err := readConfig(at)
	if err != nil {
		return err
	}
	at.Config = config
	if !trust {
		if err := refuseKeys(name, config, gitconfig.Executable()); err != nil {
			return err
		}
	}
	if depth == maxNesting {
		return fault.Limit("too_many", "%s lies in %d submodules", name, maxNesting)
	}
	return judgeTree(at, trust, depth+1)
}

// eachEntry reads the entries of an index of version 2, 3 or 4; it returns false for anything else.
func eachEntry(index []byte, sha256 bool, each func(mode uint32, name []byte)) bool {
	if len(index) < indexHeader || string(index[:4]) != "DIRC" {
		return false
	}
	version, count := binary.BigEndian.Uint32(index[4:]), binary.BigEndian.Uint32(index[8:])
	if version < 2 || version > 4 {
		return false
	}
	idLength := 20
	if sha256 {
		idLength = 32
	}
	var name []byte
	at := indexHeader
	for range count {
		start := at + indexStat + idLength + 2
		if start > len(index) {
			return false
		}
		if binary.BigEndian.Uint16(index[start-2:])&flagExtended != 0 {
			start += 2
		}
		mode := binary.BigEndian.Uint32(index[at+indexMode:])
		rest := index[min(start, len(index)):]
		if version == 4 { // the name begins as the one before, but for its last bytes
			drop, n := offset(rest)
			if n == 0 || drop > len(name) {
				return false
			}
			name, rest, start = name[:len(name)-drop], rest[n:], start+n
		}
		length := bytes.IndexByte(rest, 0)
		switch {
		case length < 0:
			return false
		case version == 4:
			name = append(name, rest[:length]...)
			at = start + length + 1
		default:
			name = rest[:length]
			at += (start - at + length + 8) &^ 7 // padded with one to eight NULs
		}
		each(mode, name)
	}
	return true
}

// offset reads a number as packs have it, seven bits a byte; n is how many bytes it took, 0 when it does not end.
func offset(data []byte) (value, n int) {
	for i, b := range data[:min(len(data), 5)] {
		if i > 0 {
			value++
		}
		value = value<<7 | int(b&0x7f)
		if b&0x80 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

// isBadEntry looks closely at the few names that may be bad. A split index has nameless entries; a sparse one has
// folders.
func isBadEntry(name []byte) bool {
	if len(name) == 0 || name[0] != '/' && !bytes.Contains(name, []byte("..")) && !bytes.Contains(name, []byte(".git")) {
		return false
	}
	return patch.Judge(cmp.Or(strings.TrimSuffix(string(name), "/"), "/"), false) != ""
}
