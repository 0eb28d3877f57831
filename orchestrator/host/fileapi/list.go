package fileapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	maxEntries = 1 << 20 // of one listing
	maxNamed   = 10000   // files that the answer to a change names; all are counted
)

func (a *API) ListFiles(w http.ResponseWriter, r *http.Request) error {
	name, err := queryName(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if _, err := path.Match(q.Get("pattern"), ""); err != nil {
		return wire.BadRequest("pattern: " + err.Error())
	}
	most := maxEntries
	if text := q.Get("limit"); text != "" {
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > maxEntries {
			return wire.BadRequest(fmt.Sprintf("limit must be a number from 1 to %d, not %q", maxEntries, text))
		}
	}
	op := files.Op{Kind: files.List, Path: []byte(name), Pattern: []byte(q.Get("pattern")), Recursive: q.Get("recursive") == "true"}
	return a.doFiles(w, r, op, q.Get("asRoot") == "true", "entries", most, func(e files.Entry) any { return fileInfo(name, e) }, nil)
}

// fileInfo is an entry in the words of the API. A name that is not valid UTF-8 is sent as bytes, too: JSON cannot carry it.
func fileInfo(top string, e files.Entry) sprites.FileInfo {
	name := path.Join(top, e.Rel)
	kind := "file"
	switch {
	case e.Mode.IsDir():
		kind = "directory"
	case e.Mode&fs.ModeSymlink != 0:
		kind = "symlink"
	}
	info := sprites.FileInfo{
		Name: path.Base(name), Path: name, Type: kind, Size: e.Size, Mode: formatOctal(e.Mode), ModTime: e.ModTime.UTC().Truncate(time.Second), IsDir: e.Mode.IsDir(),
	}
	if y := info.ModTime.Year(); y < 0 || y > 9999 {
		info.ModTime = time.Unix(0, 0).UTC() // no such time in JSON
	}
	if !utf8.ValidString(name) {
		info.PathBytes = []byte(name)
	}
	return info
}

// doFiles does an operation and answers with the list that it makes, {"path":…, list:[…], "count":n, …}. Of the entries at
// most most are in the list; more than that is an error of a listing without a limit. finish adds members to the answer.
func (a *API) doFiles(w http.ResponseWriter, r *http.Request, op files.Op, root bool, list string, most int, show func(files.Entry) any, finish func(out map[string]any)) error {
	name := string(op.Path)
	return a.withFiles(w, r, name, root, func(f fileAccess) (func(), error) {
		if err := checkName(name, string(op.Dest)); err != nil {
			return nil, err
		}
		kept := &wire.Spool{Dir: a.TempDir()}
		count, err := collectEntries(kept, list, most, op.Kind == files.List && most == maxEntries, show, func(emit files.Emit) error { return f.Do(r.Context(), op, emit) })
		if errors.Is(err, wire.ErrLongAnswer) {
			err = fileRefusal{syscall.EFBIG, "the names of the files are too long for one answer: list the folders one by one"}
		}
		if err == nil {
			tail := map[string]any{"path": name, "count": count}
			if finish != nil {
				finish(tail)
			}
			err = endObject(kept, tail)
		}
		if err != nil {
			kept.Close()
			return nil, err
		}
		return func() {
			defer kept.Close()
			kept.Send(w, "application/json")
		}, nil
	})
}

// collectEntries writes the beginning of an object with the entries that do emits.
func collectEntries(kept *wire.Spool, list string, most int, strict bool, show func(files.Entry) any, do func(files.Emit) error) (count int, err error) {
	out := bufio.NewWriter(kept)
	fmt.Fprintf(out, "{%q:[", list)
	err = do(func(e files.Entry) error {
		count++
		shown := show(e)
		if count > most {
			if strict {
				return fileRefusal{syscall.EFBIG, fmt.Sprintf("more than %d files: list the folders one by one", most)}
			}
			return nil
		}
		item, err := json.Marshal(shown)
		if err != nil {
			return err
		}
		if count > 1 {
			item = append([]byte{','}, item...)
		}
		_, err = out.Write(item)
		return err
	})
	if err != nil {
		return 0, err
	}
	_, err = out.WriteString("]")
	return count, errors.Join(err, out.Flush())
}

// endObject writes further members and the end of an object.
func endObject(kept *wire.Spool, members map[string]any) error {
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	rest[0] = ','
	_, err = kept.Write(append(rest, '\n'))
	return err
}
