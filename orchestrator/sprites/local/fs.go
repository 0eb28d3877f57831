package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	maxWrite   = 1 << 30 // bytes of one written file
	maxEntries = 20000   // of one listing
)

// errnos names the errors that file calls report, and their status.
var errnos = []struct {
	is     error
	code   string
	status int
	text   string
}{
	{fs.ErrNotExist, "ENOENT", http.StatusNotFound, "no such file or directory"},
	{fs.ErrExist, "EEXIST", http.StatusConflict, "file exists"},
	{syscall.ENOTDIR, "ENOTDIR", http.StatusBadRequest, "not a directory"},
	{syscall.EISDIR, "EISDIR", http.StatusBadRequest, "is a directory"},
	{syscall.ENOTEMPTY, "ENOTEMPTY", http.StatusConflict, "directory not empty"},
	{syscall.EPERM, "EPERM", http.StatusForbidden, "operation not permitted"},
	{fs.ErrPermission, "EACCES", http.StatusForbidden, "permission denied"},
	{syscall.EROFS, "EACCES", http.StatusForbidden, "read-only file system"},
	{syscall.EINVAL, "EINVAL", http.StatusBadRequest, "invalid argument"},
	{syscall.ENXIO, "EINVAL", http.StatusBadRequest, "not a regular file"},
	{syscall.ENAMETOOLONG, "ENAMETOOLONG", http.StatusBadRequest, "file name too long"},
	{syscall.ELOOP, "EINVAL", http.StatusBadRequest, "too many levels of symbolic links"},
	{syscall.EFBIG, "EFBIG", http.StatusRequestEntityTooLarge, "file too large"},
	{syscall.ENOSPC, "ENOSPC", http.StatusInsufficientStorage, "no space left on device"},
	{syscall.EDQUOT, "ENOSPC", http.StatusInsufficientStorage, "disk quota exceeded"},
}

// refuseFile answers a file call in the form of the API. name is what the client asked for: host paths stay inside.
func (h *Host) refuseFile(w http.ResponseWriter, r *http.Request, name string, err error) {
	var errno syscall.Errno
	var at *fs.PathError
	var link *os.LinkError
	if (errors.As(err, &at) || errors.As(err, &link)) && !errors.As(err, &errno) {
		err = syscall.EACCES // os.Root found a way out that was not there a moment before
	}
	for _, e := range errnos {
		if errors.Is(err, e.is) {
			writeJSON(w, e.status, map[string]string{"error": e.text, "code": e.code, "path": name})
			return
		}
	}
	h.cfg.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Str("file", name).Msg("file call failed")
	writeJSON(w, http.StatusInternalServerError, map[string]string{"error": "input/output error", "code": "EIO", "path": name})
}

// within runs fn on the files of the sprite that r names, and answers if it fails.
func (h *Host) withFiles(w http.ResponseWriter, r *http.Request, name string, fn func(*files) error) error {
	_, rec, leave, err := h.enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return err
	}
	defer leave()
	f, err := h.openFiles(rec)
	if err != nil {
		return err
	}
	defer f.close()
	if err := fn(f); err != nil {
		h.refuseFile(w, r, name, err)
	}
	return nil
}

// fileName is the absolute name that a call refers to.
func fileName(name, workingDir string) string {
	if workingDir == "" {
		workingDir = defaultDir
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", workingDir, name)
}

func queryName(r *http.Request) (string, error) {
	q := r.URL.Query()
	if q.Get("path") == "" {
		return "", badRequest("path is missing")
	}
	return fileName(q.Get("path"), q.Get("workingDir")), nil
}

func octal(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	for _, b := range []struct {
		is  fs.FileMode
		bit uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if mode&b.is != 0 {
			bits |= b.bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// parseMode reads permission bits; the set-id bits are not for file calls to give.
func parseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o7777 || n&0o6000 != 0 {
		return 0, badRequest(fmt.Sprintf("mode must be octal permission bits such as 0644, not %q", text))
	}
	mode := fs.FileMode(n & 0o777)
	if n&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode, nil
}

// readFile streams a file, or with start and end (exclusive) a part of it.
func (h *Host) readFile(w http.ResponseWriter, r *http.Request) error {
	name, err := queryName(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	offset, err := position(q.Get("start"), 0)
	if err != nil {
		return err
	}
	end, err := position(q.Get("end"), -1)
	if err != nil {
		return err
	}
	var file *os.File
	var size int64
	err = h.withFiles(w, r, name, func(f *files) error {
		at, err := f.locate(name, true)
		if err != nil {
			return err
		}
		file, size, err = openRegular(at)
		return err
	})
	if err != nil || file == nil {
		return err
	}
	// The sprite may go on, and even be restored, while a slow client reads: the open file stays what it was.
	defer file.Close()
	if end >= 0 {
		size = min(size, end)
	}
	length := max(size-offset, 0)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	status := http.StatusOK
	if q.Get("start") != "" || q.Get("end") != "" {
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	if n, err := io.Copy(w, io.NewSectionReader(file, offset, length)); err != nil || n < length {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

func position(text string, otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest(fmt.Sprintf("start and end must be offsets in bytes, not %q", text))
	}
	return n, nil
}

// openRegular opens a regular file for reading and nothing else: a FIFO would block, a device could do anything.
func openRegular(at located) (*os.File, int64, error) {
	file, err := at.root.OpenFile(at.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := file.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = syscall.EISDIR
	case !st.Mode().IsRegular():
		err = syscall.EINVAL
	default:
		return file, st.Size(), nil
	}
	return nil, 0, errors.Join(err, file.Close())
}

// writeFile replaces a file. The body is received before the sprite is touched, so that a slow client holds up nobody
// and a broken one changes nothing.
func (h *Host) writeFile(w http.ResponseWriter, r *http.Request) error {
	name, err := queryName(r)
	if err != nil {
		return err
	}
	var mode *fs.FileMode
	if text := r.URL.Query().Get("mode"); text != "" {
		m, err := parseMode(text)
		if err != nil {
			return err
		}
		mode = &m
	}
	spool, err := os.CreateTemp(h.tmpDir(), "upload-")
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	size, err := io.Copy(spool, http.MaxBytesReader(w, r.Body, maxWrite))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		h.refuseFile(w, r, name, syscall.EFBIG)
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		h.refuseFile(w, r, name, err)
		return nil
	case err != nil:
		return badRequest("the body of the file did not arrive whole: " + err.Error())
	}
	return h.withFiles(w, r, name, func(f *files) error {
		given, err := f.replace(name, io.NewSectionReader(spool, 0, size), mode)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, map[string]any{"path": name, "size": size, "mode": octal(given)})
		return nil
	})
}

// replace puts content in the place of a file, at once. A nil mode keeps the file's own, else 0644.
func (f *files) replace(name string, content io.Reader, mode *fs.FileMode) (given fs.FileMode, err error) {
	at, err := f.locate(name, true)
	if err != nil {
		return 0, err
	}
	if at.readOnly {
		return 0, syscall.EACCES
	}
	if err := f.mkdirAll(at.root, path.Dir(at.rel)); err != nil {
		return 0, err
	}
	// Held open, so that the sprite cannot move the folder away between the steps.
	dir, err := at.root.OpenRoot(path.Dir(at.rel))
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	base := path.Base(at.rel)
	given = 0o644
	if st, err := dir.Lstat(base); err == nil {
		switch {
		case st.IsDir():
			return 0, syscall.EISDIR
		case !st.Mode().IsRegular():
			return 0, syscall.EINVAL
		}
		given = st.Mode().Perm()
	}
	if mode != nil {
		given = *mode
	}
	temp := ".upload-" + ulid.Make().String()
	file, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(file, content)
	err = errors.Join(err, file.Chmod(given))
	if f.uid >= 0 {
		err = errors.Join(err, file.Chown(f.uid, f.gid))
	}
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = dir.Rename(temp, base)
	}
	if err != nil {
		return 0, errors.Join(err, dir.Remove(temp))
	}
	return given, nil
}

func (h *Host) listFiles(w http.ResponseWriter, r *http.Request) error {
	name, err := queryName(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	pattern := q.Get("pattern")
	if _, err := path.Match(pattern, ""); err != nil {
		return badRequest("pattern: " + err.Error())
	}
	return h.withFiles(w, r, name, func(f *files) error {
		entries, err := f.list(name, pattern, q.Get("recursive") == "true")
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, map[string]any{"path": name, "entries": entries, "count": len(entries)})
		return nil
	})
}

func (f *files) list(name, pattern string, recursive bool) ([]sprites.FileInfo, error) {
	at, err := f.locate(name, true)
	if err != nil {
		return nil, err
	}
	st, err := at.root.Lstat(at.rel)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []sprites.FileInfo{fileInfo(path.Base(name), name, st)}, nil
	}
	out := []sprites.FileInfo{}
	err = fs.WalkDir(at.root.FS(), at.rel, func(p string, d fs.DirEntry, err error) error {
		switch {
		case p == at.rel:
			return err
		case err != nil:
			return nil // went away, or cannot be read: the rest can
		}
		rest := strings.TrimPrefix(p, at.rel+"/")
		if matched, _ := path.Match(pattern, d.Name()); matched || pattern == "" {
			st, err := d.Info()
			if err != nil {
				return nil
			}
			if len(out) == maxEntries {
				return syscall.EFBIG
			}
			out = append(out, fileInfo(d.Name(), path.Join(name, rest), st))
		}
		if d.IsDir() && !recursive {
			return fs.SkipDir
		}
		return nil
	})
	return out, err
}

func fileInfo(base, name string, st fs.FileInfo) sprites.FileInfo {
	kind := "file"
	switch {
	case st.IsDir():
		kind = "directory"
	case st.Mode()&fs.ModeSymlink != 0:
		kind = "symlink"
	}
	return sprites.FileInfo{
		Name: base, Path: name, Type: kind, Size: st.Size(), Mode: octal(st.Mode()),
		ModTime: st.ModTime().UTC().Truncate(time.Second), IsDir: st.IsDir(),
	}
}
