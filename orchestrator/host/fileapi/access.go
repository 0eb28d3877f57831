package fileapi

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// fileAccess is how the host gets at a sprite's files: by the init of its sandbox ([sandbox.Files]), or by its folders where
// there is none (hostFiles). Errors are those of the system calls.
type fileAccess interface {
	// Open opens a regular file for reading. It must be closed before the sprite's gate is left.
	Open(ctx context.Context, name string) (*os.File, int64, error)
	Write(ctx context.Context, name string, content *os.File, size int64, mode *fs.FileMode) (fs.FileMode, error)
	Do(ctx context.Context, op files.Op, emit files.Emit) error
}

// errnos names the errors that file calls report, and their status.
var errnos = []struct {
	is     error
	code   string
	status int
	text   string
}{
	{fs.ErrNotExist, "ENOENT", http.StatusNotFound, "no such file or directory"},
	{syscall.ENOTEMPTY, "ENOTEMPTY", http.StatusConflict, "directory not empty"},
	{fs.ErrExist, "EEXIST", http.StatusConflict, "file exists"},
	{syscall.ENOTDIR, "ENOTDIR", http.StatusBadRequest, "not a directory"},
	{syscall.EISDIR, "EISDIR", http.StatusBadRequest, "is a directory"},
	{syscall.EPERM, "EPERM", http.StatusForbidden, "operation not permitted"},
	{fs.ErrPermission, "EACCES", http.StatusForbidden, "permission denied"},
	{syscall.EROFS, "EACCES", http.StatusForbidden, "read-only file system"},
	{syscall.EBUSY, "EPERM", http.StatusForbidden, "device or resource busy"},
	{syscall.EINVAL, "EINVAL", http.StatusBadRequest, "invalid argument"},
	{syscall.ENXIO, "EINVAL", http.StatusBadRequest, "not a regular file"},
	{syscall.ENAMETOOLONG, "ENAMETOOLONG", http.StatusBadRequest, "file name too long"},
	{syscall.ELOOP, "EINVAL", http.StatusBadRequest, "too many levels of symbolic links"},
	{syscall.EFBIG, "EFBIG", http.StatusRequestEntityTooLarge, "file too large"},
	{syscall.ENOSPC, "ENOSPC", http.StatusInsufficientStorage, "no space left on device"},
	{syscall.EDQUOT, "ENOSPC", http.StatusInsufficientStorage, "disk quota exceeded"},
}

// fileRefusal is an error of a file call that says more than its number does.
type fileRefusal struct {
	errno syscall.Errno
	text  string
}

func (e fileRefusal) Error() string { return e.text }
func (e fileRefusal) Unwrap() error { return e.errno }

// errAsRoot refuses a call that asks for the root of sprites that have none.
func errAsRoot(why string) error {
	return fileRefusal{syscall.EPERM, "asRoot: this sprite has no root: " + why}
}

// API answers the calls about files.
type API struct {
	*core.Core
	sprites  world
	confiner *confine.Confiner
	layers   *storage.Store
	skills   *share.Skills
}

// refuseFile answers a file call in the form of the API. name is the name from the request: host paths are not shown.
func (a *API) refuseFile(w http.ResponseWriter, r *http.Request, name string, err error) {
	var errno syscall.Errno
	var at *fs.PathError
	var link *os.LinkError
	if (errors.As(err, &at) || errors.As(err, &link)) && !errors.As(err, &errno) {
		err = syscall.EACCES // os.Root found a way out that was not there a moment before
	}
	for _, e := range errnos {
		if errors.Is(err, e.is) {
			text := e.text
			if told, ok := errors.AsType[fileRefusal](err); ok {
				text = told.text
			}
			wire.WriteJSON(w, e.status, map[string]string{"error": text, "code": e.code, "path": name})
			return
		}
	}
	a.Config.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Str("file", name).Msg("file call failed")
	wire.WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": "input/output error", "code": "EIO", "path": name})
}

// useFiles gives access to the files of a sprite, which is started or woken for it where it has to be. Until done they stay
// in place: a call that replaces them waits, and yield is closed. With root the access is that of the sprite's root.
func (a *API) useFiles(ctx context.Context, sprite string, root bool) (f fileAccess, yield <-chan struct{}, done func(), err error) {
	if root {
		if why := a.confiner.WhyNoRoot(); why != "" {
			return nil, nil, nil, errAsRoot(why)
		}
	}
	if a.confiner.Confined().Level() != spec.LevelProcess {
		s, box, done, err := a.sprites.Use(ctx, sprite)
		if err != nil {
			return nil, nil, nil, err
		}
		access := box.Files()
		if root {
			access = access.AsRoot()
		}
		return access, s.WantedAlone(), done, nil
	}
	s, rec, leave, err := a.sprites.Enter(ctx, sprite, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	tree, err := a.openRooted(rec)
	if err != nil {
		leave()
		return nil, nil, nil, err
	}
	return hostFiles{tree}, s.WantedAlone(), func() {
		tree.close()
		leave()
	}, nil
}

// withFiles runs fn on the files of the sprite that r names, as its root or its user, and answers if it fails. The answer of fn is sent after the
// sprite's gate has been left: a slow client holds up no other call.
func (a *API) withFiles(w http.ResponseWriter, r *http.Request, name string, root bool, fn func(fileAccess) (answer func(), err error)) error {
	f, _, done, err := a.useFiles(r.Context(), r.PathValue("name"), root)
	if err != nil {
		return a.fileFailed(w, r, name, err)
	}
	done = sync.OnceFunc(done)
	defer done()
	answer, err := fn(f)
	done()
	switch {
	case err == nil:
		answer()
	case errors.Is(err, spec.ErrDied), errors.Is(err, context.Canceled), spec.Short(err):
		return err
	default:
		a.refuseFile(w, r, name, err)
	}
	return nil
}

// fileFailed answers a call to which access to files was refused.
func (a *API) fileFailed(w http.ResponseWriter, r *http.Request, name string, err error) error {
	var refused fileRefusal
	if !errors.As(err, &refused) {
		return err
	}
	a.refuseFile(w, r, name, err)
	return nil
}

// fileName is the absolute name that a call refers to.
func fileName(name, workingDir string) string {
	workingDir = cmp.Or(workingDir, program.DefaultDir)
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", workingDir, name)
}

// checkName refuses names that cannot be passed to a system call.
func checkName(names ...string) error {
	for _, n := range names {
		for i := range len(n) {
			if n[i] == 0 {
				return syscall.EINVAL
			}
		}
		if len(n) >= maxPath {
			return syscall.ENAMETOOLONG
		}
	}
	return nil
}

func NewAPI(c *core.Core, sprites world, confiner *confine.Confiner, layers *storage.Store, skills *share.Skills) *API {
	return &API{Core: c, sprites: sprites, confiner: confiner, layers: layers, skills: skills}
}

// world is how file calls get at sprites.
type world interface {
	// Enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	Enter(ctx context.Context, name string, weight int64) (s *fleet.Sprite, rec records.Sprite, leave func(), err error)
	// Use is enter for calls that need the sprite's sandbox running.
	Use(ctx context.Context, name string) (s *fleet.Sprite, box *sandbox.Box, done func(), err error)
}
