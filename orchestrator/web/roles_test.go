package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
)

// TestRolesOfRoutes: every route serves the callers whose role includes the one that the description names, over a token and over
// a session, and refuses others. Routes for the owner are not served here.
func TestRolesOfRoutes(t *testing.T) {
	handler := Handler(leader{}, nil, true)
	for _, route := range api.Routes(nil) {
		if route.Method != http.MethodGet && route.Role == api.Viewer && !strings.HasSuffix(route.Path, "/replay") {
			t.Errorf("%s %s can be used by viewers", route.Method, route.Path) // replay changes nothing
		}
		for _, role := range []api.Role{"", "nobody", api.Viewer, api.Operator, api.Admin} {
			want := http.StatusForbidden
			switch {
			case role == "" || role == "nobody":
				want = http.StatusUnauthorized
			case role.Includes(route.Role):
				want = http.StatusOK
			}
			r := httptest.NewRequest(route.Method, strings.ReplaceAll(route.Path, "{id}", "x"), nil)
			r.Host = "127.0.0.1:1"
			if role != "" {
				r.Header.Set("Authorization", "Bearer "+string(role))
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d, want %d", route.Method, route.Path, role, w.Code, want)
			}
			for name, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
				r.Header.Set(name, value)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if r.Header.Del(name); w.Code != http.StatusForbidden {
					t.Errorf("%s %s with %s of another site: %d", route.Method, route.Path, name, w.Code)
				}
			}
		}
	}
}
