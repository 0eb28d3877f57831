package retention

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
)

// TestRestoreWithoutCheckpoint removes the sprites and forks that runs made, and no sprite in which a person started a run.
func TestRestoreWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	labels, removed := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			removed = r.URL.Path
		}
		_, _ = w.Write([]byte(`{"name":"` + path.Base(r.URL.Path) + `","labels":[` + labels + `]}`))
	}))
	defer server.Close()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(t.Context(), store.RunRecord{ID: "run_1", WorkItem: "1", Sprite: "taken", Program: []byte(`{}`), Secret: make([]byte, 32)}); err != nil {
		t.Fatal(err)
	}
	client := sprites.New(server.URL, "t", server.Client())
	b := Boundaries{Session: session.New(client, session.Options{}), Client: client, States: &history.States{Store: s}}
	for _, tt := range []struct {
		sprite, labels string
		removes        bool
	}{
		{"own", `"lattice-run:run_1"`, true},
		{"fork", `"lattice-copy:run_1"`, true},
		{"taken", `"lattice-copy:run_0"`, false},
		{"other", ``, false},
	} {
		labels, removed = tt.labels, ""
		err := b.Restore(t.Context(), tt.sprite, lattice.Pair{Sprite: tt.sprite})
		var refusal *lattice.Refusal
		torn := errors.As(err, &refusal) && refusal.Fault.Code == "files_torn"
		if tt.removes != (removed != "") || tt.removes != (err == nil) || !tt.removes && !torn {
			t.Errorf("%s: Restore = %v, removed %q", tt.sprite, err, removed)
		}
	}
}
