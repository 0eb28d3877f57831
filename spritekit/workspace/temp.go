package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// TempDir holds what is being written and is not yet in its place, on the same file system and out of everybody's
// sight: whoever is killed while it writes leaves nothing that a listing shows or a commit takes along. An owner holds a
// lock on its file or folder; what nobody holds is a dead process's and is swept by the next writer, clocks aside.
const TempDir = protocol.Dir + "/tmp"

// tempPrefix names temporary files that had to lie beside their place, because a mount lies between.
// TempPattern matches them as .gitignore does.
const (
	tempPrefix  = ".lattice-tmp-"
	TempPattern = tempPrefix + "*"
)

// IsTemp reports whether a path names such a temporary file or what is in such a folder; listings leave it out.
func IsTemp(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, tempPrefix) {
			return true
		}
	}
	return false
}

// temp is a locked file on its way to another name.
type temp struct {
	file *os.File
	name string // relative to the root
}

// tempPlace is where what is to be renamed into dir is written, and how its name begins.
func (r *Root) tempPlace(dir string) (place, prefix string, err error) {
	if r.state != nil && !isOwn(dir) { // TempDir lies in another tree
		for dir != "." {
			if _, err := r.rootOf(dir).Stat(dir); err == nil {
				break
			}
			dir = path.Dir(dir)
		}
		r.sweepTemps(dir, tempPrefix)
		return dir, tempPrefix, nil
	}
	if err := r.ownDir(TempDir); err != nil {
		return "", "", err
	}
	// To rename what is not there fails in another way when a mount lies between. Device numbers would not tell: a bind
	// mount has that of the file system it shows.
	nothing := randomName()
	if err := r.rootOf(TempDir).Rename(path.Join(TempDir, nothing), path.Join(dir, nothing)); errors.Is(err, syscall.EXDEV) {
		r.sweepTemps(dir, tempPrefix)
		return dir, tempPrefix, nil
	}
	r.swept.Do(func() { r.sweepTemps(TempDir, "") })
	return TempDir, "", nil
}

// newTemp makes a temporary file that can be renamed into dir.
func (r *Root) newTemp(dir string) (temp, error) {
	place, prefix, err := r.tempPlace(dir)
	if err != nil {
		return temp{}, err
	}
	for {
		name := path.Join(place, prefix+randomName())
		f, err := r.rootOf(name).OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return temp{}, r.explainError(err)
		}
		owned, err := r.ownsFile(f, name)
		if owned {
			return temp{f, name}, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return temp{}, err
		}
	}
}

// Scratch makes an empty folder that can be renamed into the folder into, and returns its absolute path. release removes
// it with all it holds, unless it was renamed, and must be called.
func (r *Root) Scratch(into string) (dir string, release func(), err error) {
	rel, err := r.Rel(into)
	if err != nil {
		return "", nil, err
	}
	place, prefix, err := r.tempPlace(rel)
	if err != nil {
		return "", nil, err
	}
	for {
		name := path.Join(place, prefix+randomName())
		if err := r.rootOf(name).Mkdir(name, 0o755); err != nil {
			return "", nil, r.explainError(err)
		}
		d, err := r.rootOf(name).Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a sweep was faster
		}
		if err != nil {
			return "", nil, r.explainError(err)
		}
		owned, err := r.ownsFile(d, name)
		if owned {
			// What cannot be removed now is removed by the next sweep.
			release := func() { r.rootOf(name).RemoveAll(name); d.Close() }
			return r.placeOf(name), release, nil
		}
		if err = errors.Join(err, d.Close()); err != nil {
			return "", nil, err
		}
	}
}

// ownsFile locks a new file or folder. It reports false when a sweep was faster, which took it away.
func (r *Root) ownsFile(f *os.File, name string) (bool, error) {
	// Only a sweep can hold it, and only for a moment.
	if err := Lock(context.Background(), f, time.Millisecond); err != nil {
		return false, fmt.Errorf("lock a temporary file: %w", err)
	}
	_, still, err := r.StillNamed(f, name)
	return still, err
}

// sweepTemps removes what dead processes left in a place. It is a courtesy: what it cannot do stays for the next one.
func (r *Root) sweepTemps(place, prefix string) {
	entries, err := r.List(place)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() && !e.IsDir() {
			continue // another's, or planted; nobody opens it
		}
		name := path.Join(place, e.Name())
		f, err := r.rootOf(name).OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			r.rootOf(name).RemoveAll(name)
		}
		f.Close()
	}
}

// randomName makes a name that nobody else uses; O_EXCL does the rest.
func randomName() string { return strconv.FormatUint(rand.Uint64(), 36) }
