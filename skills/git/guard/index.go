package guard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
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
	flagLength   = 0x0fff    // the length of the name, or 0xfff if it is longer
)

// CheckIndex refuses an index that would make git do harm when it writes. Names outside the work tree or in .git are
// written and removed by a restore, stash or checkout. A submodule that is checked out may have a configuration that runs
// programs, and git add and git stash run git in it.
func CheckIndex(at engine.Location, trust bool) error { return checkTree(at, trust, 0) }

// checkTree is CheckIndex for a repository at a depth of nested submodules.

func checkTree(at engine.Location, trust bool, depth int) error {
	files := []string{filepath.Join(at.GitDir, "index")}
	own, err := os.ReadDir(at.GitDir) // filepath.Glob would take [ and * in the name of the folder as a pattern
	if err != nil {
		return err
	}
	for _, e := range own {
		if strings.HasPrefix(e.Name(), "sharedindex.") { // of a split index
			files = append(files, filepath.Join(at.GitDir, e.Name()))
		}
	}
	format, _ := at.Config.Value("extensions", "", "objectformat")
	var links []string
	for _, file := range files {
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
			if bad == "" && isBadName(name) {
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
		if err := checkSubmodule(at.Root, path.Join(at.Name, name), trust, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkSubmodule checks the configuration of a submodule that is checked out, and its own submodules.
func checkSubmodule(root *workspace.Root, name string, trust bool, depth int) error {
	if _, err := root.Lstat(path.Join(name, ".git")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	at, err := Locate(root, name)
	if fault.HasCode(err, "not_a_repository") {
		return nil // git does not run there either
	}
	if err != nil {
		return err
	}
	config, err := ReadConfig(at)
	if err != nil {
		return err
	}
	at.Config = config
	if !trust {
		if err := RefuseKeys(name, config, gitconfig.Executable()); err != nil {
			return err
		}
	}
	if depth == maxNesting {
		return fault.Limit("too_many", "%s lies in %d submodules", name, maxNesting)
	}
	return checkTree(at, trust, depth+1)
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
		flags := int(binary.BigEndian.Uint16(index[start-2:]))
		if flags&flagExtended != 0 {
			start += 2
		}
		mode := binary.BigEndian.Uint32(index[at+indexMode:])
		rest := index[min(start, len(index)):]
		if version == 4 { // the name repeats the previous one without its last bytes
			drop, n := readOffset(rest)
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
		if flags&flagLength != min(len(name), flagLength) {
			return false // git uses the length in the flags, and would read other entries
		}
		each(mode, name)
	}
	return true
}

// readOffset reads a number in the format of packs, seven bits in a byte; n is its length in bytes, 0 when it does not end.
func readOffset(data []byte) (value, n int) {
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

// isBadName reports whether a name leads outside the work tree or into .git. A split index has entries without a name; a
// sparse one has folders.
func isBadName(name []byte) bool {
	if len(name) == 0 || name[0] != '/' && !bytes.Contains(name, []byte("..")) && !bytes.Contains(name, []byte(".git")) {
		return false
	}
	return patch.Judge(cmp.Or(strings.TrimSuffix(string(name), "/"), "/"), false) != ""
}

// CountFiles returns the number of files in the index, from its header.
func CountFiles(root *workspace.Root, gitDir string) int {
	f, err := root.Open(filepath.Join(gitDir, "index"))
	if err != nil {
		return 0 // nothing was checked out
	}
	defer f.Close()
	var header [12]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:4]) != "DIRC" {
		return 0
	}
	return int(binary.BigEndian.Uint32(header[8:]))
}
