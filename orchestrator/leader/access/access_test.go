package access

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/spritekit/fault"
)

// memory is an audit log in memory.
type memory []audit.Entry

func (m *memory) AuditEntries(_ context.Context, subject string, after uint64, yield func(audit.Entry) error) error {
	for _, e := range (*m)[after:] {
		if e.Subject != subject {
			continue
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) AddFact(_ context.Context, e audit.Entry, fact any, _ uint64) (audit.Entry, error) {
	e.Seq, e.Body = uint64(len(*m)+1), nil
	var err error
	e.Body, err = json.Marshal(fact)
	*m = append(*m, e)
	return e, err
}

func newGate() (*Gate, *memory, *time.Time) {
	now, facts := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), new(memory)
	return &Gate{Facts: facts, Now: func() time.Time { return now }}, facts, &now
}

func code(err error) string {
	var p *fault.Error
	if errors.As(err, &p) {
		return p.Fault.Code
	}
	return ""
}

func TestTokens(t *testing.T) {
	t.Parallel()
	g, facts, now := newGate()
	made, err := g.CreateToken(t.Context(), api.TokenRequest{Name: "ci", Role: route.Operator, TTLS: 60})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string((*facts)[0].Body), made.Text) {
		t.Error("the log holds the text of a token")
	}
	check := func(text string, want bool) {
		t.Helper()
		c, ok, _, err := g.CheckToken(t.Context(), text)
		if ok != want || err != nil || ok && (c.Who.Name != "token:ci" || c.Role != route.Operator) {
			t.Errorf("CheckToken = %+v, %t, %v, want %t", c, ok, err, want)
		}
	}
	check(made.Text, true)
	check("", false)
	check(made.Text+"x", false)
	for _, r := range []api.TokenRequest{{Name: "ci", Role: route.Admin}, {Name: "a b", Role: route.Admin}, {Name: "o", Role: route.Owner}, {Name: "o", Role: "root"}, {Name: "o", Role: route.Viewer, TTLS: -1}, {Name: "o", Role: route.Viewer, TTLS: 1e10}, {Name: "o", Role: route.Viewer, TTLS: 1e300}} {
		want := "bad_token"
		if r.Name == "ci" {
			want = "token_exists"
		}
		if _, err := g.CreateToken(t.Context(), r); code(err) != want {
			t.Errorf("CreateToken(%+v) = %v, want %s", r, err, want)
		}
	}
	*now = now.Add(time.Minute)
	check(made.Text, false)
	*now = now.Add(-time.Second)
	if v, err := g.RevokeToken(t.Context(), "ci"); err != nil || v.RevokedAt == nil {
		t.Errorf("RevokeToken = %+v, %v", v, err)
	}
	check(made.Text, false)
	if _, err := g.RevokeToken(t.Context(), "none"); code(err) != "token_not_found" {
		t.Errorf("RevokeToken(none) = %v", err)
	}
}

// TestWrongTokens: many wrong tokens make further ones wait.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	g, _, now := newGate()
	for range maxFailures {
		if _, ok, wait, err := g.CheckToken(t.Context(), "wrong"); ok || wait != 0 || err != nil {
			t.Fatalf("CheckToken = %t, %v, %v", ok, wait, err)
		}
	}
	if _, ok, wait, _ := g.CheckToken(t.Context(), "wrong"); ok || wait != failureLife {
		t.Errorf("CheckToken waits %v, want %v", wait, failureLife)
	}
	*now = now.Add(failureLife)
	if _, _, wait, _ := g.CheckToken(t.Context(), "wrong"); wait != 0 {
		t.Errorf("CheckToken waits %v after that", wait)
	}
}
