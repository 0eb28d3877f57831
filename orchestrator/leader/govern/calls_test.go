package govern

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/store"
)

func TestCallsOfTheSpritesAPIAreRecordedWithoutSecrets(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &Ledger{Store: s}
	served := 0
	h := l.RecordCalls(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for _, call := range []string{
		"GET /v1/sprites?prefix=run-", "PUT /v1/sprites/box", "GET /v1/sprites/box/exec?cmd=sh&cmd=-c&cmd=echo+CANARY&env=TOKEN%3DCANARY&env=CANARY2%3D&token=CANARY",
		"POST /v1/sprites/" + strings.Repeat("x", 5000) + "/checkpoint?comment=" + strings.Repeat("%C3%A4", 3000),
	} {
		method, target, _ := strings.Cut(call, " ")
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, target, nil))
	}
	var subjects, bodies []string
	if err := s.Audit("", 0, func(e audit.Entry) error {
		subjects, bodies = append(subjects, e.Subject), append(bodies, string(e.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if served != 4 || len(subjects) != 4 || subjects[0] != "sprites" || subjects[1] != "sprite:box" || len(subjects[3]) > 300 || len(bodies[3]) > 2000 {
		t.Fatalf("served %d, subjects %q, bodies %q", served, subjects, bodies)
	}
	want := `{"call":"GET /v1/sprites/box/exec","parameters":{"cmd":["sh"],"env":["TOKEN","CANARY2"],"token":"[redacted]"}}`
	if bodies[2] != want {
		t.Errorf("body %s, want %s", bodies[2], want)
	}
}
