package route

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestIDOfTheNewest fixes the word "latest": programs write it in paths for the newest run, intent or proposal.
func TestIDOfTheNewest(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"latest": "", "Latest": "Latest", "run_1": "run_1"} {
		var got string
		mux := http.NewServeMux()
		mux.HandleFunc("GET /runs/{id}", func(_ http.ResponseWriter, r *http.Request) { got = ID(r) })
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/runs/"+in, nil))
		if got != want {
			t.Errorf("ID of /runs/%s = %q, want %q", in, got, want)
		}
	}
}
