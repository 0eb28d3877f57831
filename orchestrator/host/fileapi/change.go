package fileapi

import (
	"encoding/json"
	"net/http"
	"path"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// fileChange is the body of the calls that change a file. Deletion takes the same members as a query.
type fileChange struct {
	Path          string  `json:"path"`
	Source        string  `json:"source"`
	Dest          string  `json:"dest"`
	WorkingDir    string  `json:"workingDir"`
	Mode          string  `json:"mode"`
	UID           account `json:"uid"`
	GID           account `json:"gid"`
	Recursive     bool    `json:"recursive"`
	PreserveAttrs bool    `json:"preserveAttrs"`
	AsRoot        bool    `json:"asRoot"`
}

// account is a user or group: a number or a name.
type account string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *account) UnmarshalJSON(data []byte) error {
	var n *uint32
	if json.Unmarshal(data, &n) == nil {
		if n != nil {
			*a = account(strconv.FormatUint(uint64(*n), 10))
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(a))
}

// operationOf returns the operation that a change asks for.
func (in fileChange) operationOf(kind files.Kind) files.Op {
	named := in.Path
	if kind == files.Copy || kind == files.Rename {
		named = in.Source
	}
	return files.Op{
		Kind: kind, Path: []byte(fileName(named, in.WorkingDir)), Dest: []byte(fileName(in.Dest, in.WorkingDir)),
		Recursive: in.Recursive, Preserve: in.PreserveAttrs, User: string(in.UID), Group: string(in.GID),
	}
}

func (a *API) DeleteFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	in := fileChange{Path: q.Get("path"), WorkingDir: q.Get("workingDir"), Recursive: q.Get("recursive") == "true", AsRoot: q.Get("asRoot") == "true"}
	if in.Path == "" {
		if err := wire.ReadJSON(w, r, &in); err != nil {
			return err
		}
	}
	if in.Path == "" {
		return wire.BadRequest("path is missing")
	}
	op := in.operationOf(files.Remove)
	return a.doFiles(w, r, op, in.AsRoot, "deleted", maxNamed, func(e files.Entry) any { return path.Join(string(op.Path), e.Rel) }, nil)
}

func (a *API) RenameFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if in.Source == "" || in.Dest == "" {
		return wire.BadRequest("source and dest are needed")
	}
	op := in.operationOf(files.Rename)
	return a.withFiles(w, r, string(op.Path), in.AsRoot, func(f fileAccess) (func(), error) {
		if err := checkName(string(op.Path), string(op.Dest)); err != nil {
			return nil, err
		}
		err := f.Do(r.Context(), op, func(files.Entry) error { return nil })
		return func() {
			wire.WriteJSON(w, http.StatusOK, map[string]string{"source": string(op.Path), "dest": string(op.Dest)})
		}, err
	})
}

func (a *API) CopyFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if in.Source == "" || in.Dest == "" {
		return wire.BadRequest("source and dest are needed")
	}
	op := in.operationOf(files.Copy)
	var total int64
	return a.doFiles(w, r, op, in.AsRoot, "copied", maxNamed, func(e files.Entry) any {
		if e.Mode.IsRegular() {
			total += e.Size
		}
		return map[string]string{"source": path.Join(string(op.Path), e.Rel), "dest": path.Join(string(op.Dest), e.Rel)}
	}, func(out map[string]any) { out["totalBytes"] = total })
}

func (a *API) ChmodFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if in.Path == "" {
		return wire.BadRequest("path is missing")
	}
	mode, err := parseMode(in.Mode)
	if err != nil {
		return err
	}
	op := in.operationOf(files.Chmod)
	op.Mode = mode
	return a.doFiles(w, r, op, in.AsRoot, "affected", maxNamed, func(e files.Entry) any {
		return map[string]string{"path": path.Join(string(op.Path), e.Rel), "mode": formatOctal(e.Mode)}
	}, nil)
}

func (a *API) ChownFile(w http.ResponseWriter, r *http.Request) error {
	var in fileChange
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if in.Path == "" {
		return wire.BadRequest("path is missing")
	}
	if in.UID == "" && in.GID == "" {
		return wire.BadRequest("uid or gid is needed: a number or a name")
	}
	op := in.operationOf(files.Chown)
	return a.doFiles(w, r, op, in.AsRoot, "affected", maxNamed, func(e files.Entry) any {
		return map[string]string{"path": path.Join(string(op.Path), e.Rel), "mode": formatOctal(e.Mode)}
	}, nil)
}
