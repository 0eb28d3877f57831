// Package fileapi answers the calls about the files of sprites. Where there are namespaces the sandbox does the work, else
// the host, confined to the folders of the sprite.
package fileapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// maxWrite bounds one written file, in bytes.
const maxWrite = 1 << 30

func queryName(r *http.Request) (string, error) {
	q := r.URL.Query()
	if q.Get("path") == "" {
		return "", wire.BadRequest("path is missing")
	}
	return fileName(q.Get("path"), q.Get("workingDir")), nil
}

func formatOctal(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	for _, b := range specialBits {
		if mode&b.is != 0 {
			bits |= b.bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// specialBits pairs the bits above the permissions with their numbers.
var specialBits = []struct {
	is  fs.FileMode
	bit uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

// parseMode reads permission bits. Bits that give a program its owner's rights have no effect in a sprite, but may be set,
// as a command in it may.
func parseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, wire.BadRequest(fmt.Sprintf("mode must be octal permission bits such as 0644, not %q", text))
	}
	mode := fs.FileMode(n & 0o777)
	for _, b := range specialBits {
		if uint32(n)&b.bit != 0 {
			mode |= b.is
		}
	}
	return mode, nil
}

// ReadFile streams a file, or with start and end (exclusive) a part of it.
func (a *API) ReadFile(w http.ResponseWriter, r *http.Request) error {
	name, err := queryName(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	start, err := parsePosition(q.Get("start"), 0)
	if err != nil {
		return err
	}
	end, err := parsePosition(q.Get("end"), -1)
	if err != nil {
		return err
	}
	f, yield, done, err := a.useFiles(r.Context(), r.PathValue("name"), q.Get("asRoot") == "true")
	if err != nil {
		return a.fileFailed(w, r, name, err)
	}
	done = sync.OnceFunc(done)
	defer done()
	if err := checkName(name); err != nil {
		a.refuseFile(w, r, name, err)
		return nil
	}
	file, size, err := f.Open(r.Context(), name)
	if errors.Is(err, spec.ErrDied) || spec.Short(err) {
		return err
	}
	if err != nil {
		a.refuseFile(w, r, name, err)
		return nil
	}
	whole := size
	if end >= 0 {
		size = min(size, end)
	}
	source := &lent{dir: a.TempDir(), file: file, at: start, end: max(size, start)}
	defer source.close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(source.end-start, 10))
	status := http.StatusOK
	if q.Get("start") != "" || q.Get("end") != "" {
		status = http.StatusPartialContent
		if source.end > start {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, source.end-1, whole))
		}
	}
	if err := a.lendFile(w, status, source, yield, done); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// lendFile serves from a sprite's file. A small one is read at once; of a large one the sprite is held until the client has it
// all or a caller wants the sprite alone. done is called once the sprite's file is closed.
func (a *API) lendFile(w http.ResponseWriter, status int, source *lent, yield <-chan struct{}, done func()) error {
	if length := source.end - source.at; length <= held {
		content := make([]byte, length)
		_, err := io.ReadFull(source, content)
		source.close()
		done()
		if err != nil {
			return err
		}
		w.WriteHeader(status)
		_, err = w.Write(content)
		return err
	}
	w.WriteHeader(status)
	served := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		select {
		case <-served:
		case <-yield:
			if err := source.takeBack(); err != nil {
				a.Config.Log.Warn().Err(err).Msg("keep the rest of a file for a client; its download is cut off")
				source.close()
			}
			done()
		}
	})
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, source, make([]byte, readPiece))
	close(served)
	keeper.Wait()
	source.close()
	done()
	return err
}

func parsePosition(text string, otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, wire.BadRequest(fmt.Sprintf("start and end must be offsets in bytes, not %q", text))
	}
	return n, nil
}

// WriteFile replaces a file. The body is received before the sprite is touched, so that a slow client holds up no other call
// and a broken one changes nothing.
func (a *API) WriteFile(w http.ResponseWriter, r *http.Request) error {
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
	content, err := wire.CreateNameless(a.TempDir())
	if err != nil {
		return err
	}
	defer content.Close()
	size, err := io.Copy(content, http.MaxBytesReader(w, r.Body, maxWrite))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		a.refuseFile(w, r, name, syscall.EFBIG)
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		a.refuseFile(w, r, name, err)
		return nil
	case err != nil:
		return wire.BadRequest("the body of the file did not arrive whole: " + err.Error())
	}
	return a.withFiles(w, r, name, r.URL.Query().Get("asRoot") == "true", func(f fileAccess) (func(), error) {
		if err := checkName(name); err != nil {
			return nil, err
		}
		given, err := f.Write(r.Context(), name, content, size, mode)
		return func() {
			wire.WriteJSON(w, http.StatusOK, map[string]any{"path": name, "size": size, "mode": formatOctal(given)})
		}, err
	})
}
