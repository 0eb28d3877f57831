package skillset

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A checkpoint whose answer is lost is found again and not taken twice; one that cannot be restored is no golden one.
func TestTakeGolden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		have   []sprites.Checkpoint
		cut    int  // answers that are lost, after the checkpoint was taken
		lost   int  // requests that are lost, before it was
		refuse bool // the host takes none
		want   string
		reused bool
		taken  int
		err    string
	}{
		{name: "none yet", want: "v1", taken: 1},
		{name: "there already", have: []sprites.Checkpoint{{ID: "v7", Comment: "golden"}}, want: "v7", reused: true},
		{name: "others are", have: []sprites.Checkpoint{{ID: "v1", Comment: "gold"}}, want: "v2", taken: 1},
		{name: "a broken one", have: []sprites.Checkpoint{{ID: "v1", Comment: "golden", Health: "mount_failed"}}, want: "v2", taken: 1},
		{name: "an automatic one", have: []sprites.Checkpoint{{ID: "v1", Comment: "golden", IsAuto: true}}, want: "v2", taken: 1},
		{name: "answer lost", cut: 1, want: "v1", taken: 1},
		{name: "request lost", lost: 1, want: "v1", taken: 1},
		{name: "always lost", lost: 99, err: "take the golden checkpoint of sprite box"},
		{name: "refused", refuse: true, err: "no space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have, taken := tt.have, 0
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/sprites/box/checkpoints", func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewEncoder(w).Encode(have) // a lost answer is the test's failure elsewhere
			})
			mux.HandleFunc("GET /v1/sprites/box/checkpoints/{id}", func(w http.ResponseWriter, r *http.Request) {
				for _, p := range have {
					if p.ID == r.PathValue("id") {
						_ = json.NewEncoder(w).Encode(p)
					}
				}
			})
			mux.HandleFunc("POST /v1/sprites/box/checkpoint", func(w http.ResponseWriter, r *http.Request) {
				if tt.refuse {
					fmt.Fprintln(w, `{"type":"error","error":"no space"}`)
					return
				}
				if tt.lost > 0 {
					tt.lost--
					panic(http.ErrAbortHandler)
				}
				id := fmt.Sprintf("v%d", len(have)+1)
				have = append([]sprites.Checkpoint{{ID: id, Comment: "golden"}}, have...)
				taken++
				fmt.Fprintln(w, `{"type":"info","data":"Creating checkpoint..."}`)
				if tt.cut > 0 {
					tt.cut--
					panic(http.ErrAbortHandler)
				}
				fmt.Fprintf(w, `{"type":"complete","data":"Checkpoint %s created","checkpoint_id":%q}`+"\n", id, id)
			})
			var mu sync.Mutex // requests after a lost one come over another connection
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				mux.ServeHTTP(w, r)
			}))
			defer server.Close()
			client := sprites.New(server.URL, "token", server.Client())
			golden, err := TakeGolden(t.Context(), client, "box", "golden")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("TakeGolden = %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || golden.Checkpoint.ID != tt.want || golden.Reused != tt.reused || taken != tt.taken {
				t.Errorf("TakeGolden = %+v, %v with %d taken; want %s, reused %v, %d taken", golden, err, taken, tt.want, tt.reused, tt.taken)
			}
		})
	}
}
