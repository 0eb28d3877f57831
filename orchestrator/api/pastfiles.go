package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// PastFiles is the part of Service for the files that a run's sprite had at a moment; "" is the present. The sprite does not
// change.
type PastFiles interface {
	FolderAt(ctx context.Context, id, at, path string) (Folder, error)
	// FileAt returns the content of a file; one of more than MaxFile bytes is refused.
	FileAt(ctx context.Context, id, at, path string) ([]byte, error)
	// ServeShell answers a request for a WebSocket with a shell in a copy of the sprite, which is removed at the shell's end.
	ServeShell(w http.ResponseWriter, r *http.Request, id, at string, rows, cols int) error
}

// Folder is a folder of a sprite. Names and paths are the sprite's: they may hold anything.
type Folder struct {
	RunID   string             `json:"run_id"`
	At      string             `json:"at,omitempty"`
	Path    string             `json:"path"`
	Entries []sprites.FileInfo `json:"entries"` // sorted by name, MaxEntries at most
	Total   int                `json:"total"`
}

// Bounds of the files of a moment.
const (
	MaxEntries = 1000
	MaxFile    = 1 << 20
)

func pastFileRoutes(s PastFiles) []route.Route {
	at := route.String("at", "a moment, NODE, NODE#VISIT or @TURN; by default the present")
	return []route.Route{
		route.Get("/runs/{id}/files", "List a folder of a run's sprite as it was at a moment.",
			func(r *http.Request) (Folder, error) {
				return s.FolderAt(r.Context(), route.ID(r), r.FormValue("at"), r.FormValue("path"))
			}, at, route.String("path", "the folder; by default /workspace")),
		route.Raw[route.Bytes](route.Viewer, http.MethodGet, "/runs/{id}/file", "Read a file of a run's sprite as it was at a moment.", mediaBytes, func(w http.ResponseWriter, r *http.Request) {
			content, err := s.FileAt(r.Context(), route.ID(r), r.FormValue("at"), r.FormValue("path"))
			if err != nil {
				exchange.Fail(w, err)
				return
			}
			w.Header().Set("Content-Type", mediaBytes)
			_, _ = w.Write(content) // the client sees a cut body
		}, at, route.String("path", "the file")),
		route.Raw[route.Bytes](route.Operator, http.MethodGet, "/runs/{id}/shell", "Open a shell in a copy of a run's sprite as it was at a moment, over a WebSocket with the messages of an exec with a terminal. The copy is removed at the shell's end.", mediaBytes,
			func(w http.ResponseWriter, r *http.Request) {
				rows, err := sizeOf(r, "rows")
				cols, wrong := sizeOf(r, "cols")
				if err = errors.Join(err, wrong); err == nil {
					err = s.ServeShell(w, r, route.ID(r), r.FormValue("at"), rows, cols)
				}
				if err != nil {
					exchange.Fail(w, err)
				}
			}, at, route.Int("rows", "of the terminal"), route.Int("cols", "of the terminal")),
	}
}

// sizeOf returns a measure of a terminal, 0 if the request has none.
func sizeOf(r *http.Request, name string) (int, error) {
	n, err := strconv.ParseUint(cmp.Or(r.FormValue(name), "0"), 10, 12)
	if err != nil {
		return 0, fault.BadInput("bad_request", "%s is a number up to 4095", name)
	}
	return int(n), nil
}
