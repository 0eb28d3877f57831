package api

import (
	"context"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// PastFiles is the part of Service for the files that a run's sprite had at a moment; "" is the present. The sprite does not
// change.
type PastFiles interface {
	FolderAt(ctx context.Context, id, at, path string) (Folder, error)
	// FileAt returns the content of a file; one of more than MaxFile bytes is refused.
	FileAt(ctx context.Context, id, at, path string) ([]byte, error)
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

func pastFileRoutes(s PastFiles) []Route {
	at := Param{"at", "string", "a moment, NODE, NODE#VISIT or @TURN; by default the present"}
	return []Route{
		get("/runs/{id}/files", "List a folder of a run's sprite as it was at a moment.",
			func(r *http.Request) (Folder, error) {
				return s.FolderAt(r.Context(), idOf(r), r.FormValue("at"), r.FormValue("path"))
			}, at, Param{"path", "string", "the folder; by default /workspace"}),
		raw[empty](Viewer, http.MethodGet, "/runs/{id}/file", "Read a file of a run's sprite as it was at a moment.", mediaBytes, func(w http.ResponseWriter, r *http.Request) {
			content, err := s.FileAt(r.Context(), idOf(r), r.FormValue("at"), r.FormValue("path"))
			if err != nil {
				fail(w, err)
				return
			}
			w.Header().Set("Content-Type", mediaBytes)
			_, _ = w.Write(content) // the client sees a cut body
		}, at, Param{"path", "string", "the file"}),
	}
}
