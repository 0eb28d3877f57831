package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
)

// TestRolesOfRoutes: every route serves the callers whose role includes the one that the description names, over a token and over
// a session, and refuses others. Routes for the owner are not served here.
func TestRolesOfRoutes(t *testing.T) {
	handler := Handler(leader{}, nil, true)
	for _, operation := range api.Routes(nil) {
		if operation.Method != http.MethodGet && operation.Role == route.Viewer && !strings.HasSuffix(operation.Path, "/replay") {
			t.Errorf("%s %s can be used by viewers", operation.Method, operation.Path) // replay changes nothing
		}
		for _, role := range []route.Role{"", "nobody", route.Viewer, route.Operator, route.Admin} {
			want := http.StatusForbidden
			switch {
			case role == "" || role == "nobody":
				want = http.StatusUnauthorized
			case role.Includes(operation.Role):
				want = http.StatusOK
			}
			r := httptest.NewRequest(operation.Method, strings.ReplaceAll(operation.Path, "{id}", "x"), nil)
			r.Host = "127.0.0.1:1"
			if role != "" {
				r.Header.Set("Authorization", "Bearer "+string(role))
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d, want %d", operation.Method, operation.Path, role, w.Code, want)
			}
			for name, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
				r.Header.Set(name, value)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if r.Header.Del(name); w.Code != http.StatusForbidden {
					t.Errorf("%s %s with %s of another site: %d", operation.Method, operation.Path, name, w.Code)
				}
			}
		}
	}
}
