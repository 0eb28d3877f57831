package native

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
)

// The modes of entries that are not regular files.
const (
	modeDir       = filemode.Dir
	modeSubmodule = filemode.Submodule
	modeSymlink   = filemode.Symlink
)

// indexEntry is a file of the index.
type indexEntry = index.Entry

// stage is the index as it was read: its files, sorted by path, and the time of its file.
type stage struct {
	files   []indexEntry
	written time.Time
	fresh   map[string]bool // files whose content was compared or stored since
}

// maxIndex bounds the index, in bytes: about two million files.
const maxIndex = 256 << 20

// readIndex reads the index; it refuses one whose entries say more than which file has which content.
func (r *repo) readIndex() (*stage, error) {
	f, err := r.Root.OpenFile("index", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &stage{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIndex {
		return nil, errors.Join(err, fmt.Errorf("read the index: it is not a file of at most %d bytes", maxIndex))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, err
	}
	if len(data) > 12 && binary.BigEndian.Uint32(data[4:]) != 2 {
		return nil, engine.Refuse("an index of another version than 2, which sparse checkouts and intended files have")
	}
	var x index.Index
	switch err := index.NewDecoder(bytes.NewReader(data)).Decode(&x); {
	case errors.Is(err, index.ErrUnknownExtension):
		return nil, engine.Refuse("that index (split or sparse)")
	case err != nil:
		return nil, corruptIndex(err)
	}
	s := &stage{written: info.ModTime(), files: make([]indexEntry, len(x.Entries))}
	last := ""
	offset := 12
	for i, e := range x.Entries {
		if data[offset+60]&0x80 != 0 {
			return nil, engine.Refuse("an index with files that are assumed unchanged")
		}
		offset += (62 + len(e.Name) + 8) / 8 * 8
		switch problem := patch.Judge(e.Name, e.Mode == modeSymlink); {
		case problem != "":
			return nil, fmt.Errorf("%w: the index holds %q, which %s", gitdir.ErrHostile, e.Name, problem)
		case e.Mode == modeSubmodule:
			return nil, engine.Refuse("submodules")
		case e.Stage != 0:
			return nil, engine.Refuse("a repository with files in conflict")
		case e.Name <= last: // git refuses it, too; findFile would not find its files
			return nil, corruptIndex(fmt.Errorf("%q follows %q", e.Name, last))
		}
		s.files[i], last = *e, e.Name
	}
	return s, nil
}

func corruptIndex(err error) error {
	return fault.Failed("corrupt", "read the index: %v", err).WithHint("restore a checkpoint, or remove .git/index and stage everything again")
}

// findFile returns the file of a path, nil if there is none.
func (s *stage) findFile(path string) *indexEntry {
	i, ok := slices.BinarySearchFunc(s.files, path, func(e indexEntry, path string) int { return cmp.Compare(e.Name, path) })
	if !ok {
		return nil
	}
	return &s.files[i]
}

// encodeIndex writes the index in version 2. A file that may have changed unseen, at the moment when the old index was written,
// loses its size, so that the next look compares its content.
func (s *stage) encodeIndex() ([]byte, error) {
	x := index.Index{Version: 2}
	for i := range s.files {
		e := &s.files[i]
		if s.isRacy(e) && !s.fresh[e.Name] {
			e.Size = 0
		}
		x.Entries = append(x.Entries, e)
	}
	var b bytes.Buffer
	err := index.NewEncoder(&b).Encode(&x)
	return b.Bytes(), err
}

// isRacy reports whether a file may have changed after it was staged without that showing in its times.
func (s *stage) isRacy(e *indexEntry) bool {
	return !s.written.IsZero() && !e.ModifiedAt.Before(s.written)
}

// lockIndex takes index.lock.
func (r *repo) lockIndex() (*gitdir.Lock, error) { return gitdir.Acquire(r.Root, "index") }

// setStat records size and times of a file. A time that go-git cannot write counts as unknown: the next look compares the content.
func setStat(e *indexEntry, st *unix.Stat_t) {
	known := func(t time.Time) time.Time {
		if t.Unix() < 0 || t.Unix() > math.MaxUint32 {
			return time.Time{}
		}
		return t
	}
	e.CreatedAt, e.ModifiedAt = known(time.Unix(st.Ctim.Unix())), known(time.Unix(st.Mtim.Unix()))
	e.Dev, e.Inode, e.UID, e.GID, e.Size = uint32(st.Dev), uint32(st.Ino), st.Uid, st.Gid, uint32(st.Size)
}

// hasStat reports whether a file looks as it did when it was staged. Parts of a second count where both sides know them.
func hasStat(e *indexEntry, st *unix.Stat_t) bool {
	same := func(a, b time.Time) bool {
		return a.Unix() == b.Unix() && (a.Nanosecond() == b.Nanosecond() || a.Nanosecond() == 0 || b.Nanosecond() == 0)
	}
	return same(e.ModifiedAt, time.Unix(st.Mtim.Unix())) && same(e.CreatedAt, time.Unix(st.Ctim.Unix())) &&
		e.Size == uint32(st.Size) && e.Inode == uint32(st.Ino) && e.UID == st.Uid && e.GID == st.Gid
}

// modeOf returns git's mode of a file, 0 for a kind that git does not store. was is the mode in the index, which decides
// where the work tree's mode does not count.
func modeOf(st *unix.Stat_t, fileMode bool, was filemode.FileMode) filemode.FileMode {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return modeSymlink
	case unix.S_IFREG:
	default:
		return 0
	}
	switch {
	case !fileMode && (was == filemode.Executable || was == filemode.Regular):
		return was
	case fileMode && st.Mode&0o100 != 0:
		return filemode.Executable
	}
	return filemode.Regular
}

// listStaged lists the differences between HEAD and the index, sorted by path.
func (r *repo) listStaged(s *stage) ([]change, error) {
	_, head, err := r.Head()
	if err != nil {
		return nil, err
	}
	tree, err := r.TreeOf(head)
	if err != nil {
		return nil, err
	}
	files := map[string]side{}
	if !tree.IsZero() {
		err := r.WalkTree(tree, func(name string, e object.TreeEntry) (bool, error) {
			if e.Mode != modeDir {
				files[name] = side{e.Mode, e.Hash}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	var list []change
	for _, e := range s.files {
		before, now := files[e.Name], side{e.Mode, e.Hash}
		if delete(files, e.Name); before != now {
			list = append(list, change{e.Name, before, now})
		}
	}
	for path, before := range files {
		list = append(list, change{path, before, side{}})
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}
