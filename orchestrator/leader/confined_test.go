package leader

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Where the settings refuse what keeps sprites apart here, they can be looked at and kept, and nothing runs in them.
func TestRefuseExec(t *testing.T) {
	served := 0
	h := refuseExec(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), errors.New("because of that"))
	ask := func(method, path, upgrade string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		if upgrade != "" {
			r.Header.Set("Upgrade", upgrade)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, refused := range [][3]string{
		{"POST", "/v1/sprites/box/exec", ""}, {"GET", "/v1/sprites/box/exec", "websocket"}, {"GET", "/v1/sprites/box/exec?cmd=sh", "websocket"},
	} {
		if w := ask(refused[0], refused[1], refused[2]); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "because of that") || served != 0 {
			t.Errorf("%v = %d %s, want it refused with the reason", refused, w.Code, w.Body)
		}
	}
	for _, served := range [][2]string{{"GET", "/v1/sprites/box/exec"}, {"GET", "/v1/sprites/box"}, {"PUT", "/v1/sprites/box/fs/write"}, {"DELETE", "/v1/sprites/box"}} {
		if w := ask(served[0], served[1], ""); w.Code != http.StatusOK {
			t.Errorf("%v = %d", served, w.Code)
		}
	}
}
