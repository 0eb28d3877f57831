package local

import (
	"io/fs"
	"net/http"
	"syscall"
)

// fileChange is the body of the calls that change what a name refers to. Deletion takes the same as a query.
type fileChange struct {
	Path       string `json:"path"`
	Source     string `json:"source"`
	Dest       string `json:"dest"`
	WorkingDir string `json:"workingDir"`
	Mode       string `json:"mode"`
	Recursive  bool   `json:"recursive"`
}

func (h *Host) deleteFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	in := fileChange{Path: q.Get("path"), WorkingDir: q.Get("workingDir"), Recursive: q.Get("recursive") == "true"}
	if in.Path == "" {
		if err := readJSON(w, r, &in); err != nil {
			return err
		}
	}
	if in.Path == "" {
		return badRequest("path is missing")
	}
	name := fileName(in.Path, in.WorkingDir)
	return h.withFiles(w, r, name, func(f *files) error {
		if err := f.remove(name, in.Recursive); err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, map[string]any{"deleted": []string{name}, "count": 1})
		return nil
	})
}

func (f *files) remove(name string, recursive bool) error {
	at, err := f.changeable(name)
	if err != nil {
		return err
	}
	if recursive {
		return at.root.RemoveAll(at.rel)
	}
	return at.root.Remove(at.rel)
}

// changeable finds a file that exists and may be removed or moved. A link at the end is meant itself.
func (f *files) changeable(name string) (located, error) {
	at, err := f.locate(name, false)
	if err != nil {
		return at, err
	}
	if at.readOnly {
		return at, syscall.EACCES
	}
	if at.top() {
		return at, syscall.EPERM
	}
	_, err = at.root.Lstat(at.rel)
	return at, err
}

func (h *Host) renameFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if in.Source == "" || in.Dest == "" {
		return badRequest("source and dest are needed")
	}
	source, dest := fileName(in.Source, in.WorkingDir), fileName(in.Dest, in.WorkingDir)
	return h.withFiles(w, r, source, func(f *files) error {
		from, err := f.changeable(source)
		if err != nil {
			return err
		}
		to, err := f.locate(dest, false)
		if err != nil {
			return err
		}
		if to.readOnly || to.top() {
			return syscall.EACCES
		}
		if err := from.root.Rename(from.rel, to.rel); err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, map[string]string{"source": source, "dest": dest})
		return nil
	})
}

func (h *Host) chmodFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	mode, err := parseMode(in.Mode)
	if err != nil {
		return err
	}
	if in.Recursive {
		return &apiError{http.StatusNotImplemented, "not_implemented", "chmod works on one file at a time here"}
	}
	name := fileName(in.Path, in.WorkingDir)
	return h.withFiles(w, r, name, func(f *files) error {
		at, err := f.locate(name, true)
		if err != nil {
			return err
		}
		if at.readOnly {
			return syscall.EACCES
		}
		st, err := at.root.Lstat(at.rel)
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return syscall.EINVAL
		}
		if err := at.root.Chmod(at.rel, mode); err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, map[string]any{
			"affected": []map[string]string{{"path": name, "mode": octal(mode)}}, "count": 1,
		})
		return nil
	})
}
