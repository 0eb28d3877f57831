package access

import (
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
)

// begin begins a session and reports whether it did.
func begin(t *testing.T, g *Gate, secret string) (Session, bool) {
	t.Helper()
	s, ok, _, err := g.BeginSession(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return s, ok
}

// TestSessionOfToken: a session acts as its token, and ends with it, by itself or at its time. The log has the digests alone.
func TestSessionOfToken(t *testing.T) {
	t.Parallel()
	g, facts, now := newGate()
	token, err := g.CreateToken(t.Context(), api.TokenRequest{Name: "ann", Role: route.Operator})
	if err != nil {
		t.Fatal(err)
	}
	var sessions [3]Session
	for i := range sessions {
		s, ok := begin(t, g, token.Text)
		if !ok {
			t.Fatal("the token begins no session")
		}
		sessions[i] = s
	}
	for _, e := range *facts {
		for _, text := range []string{token.Text, sessions[0].Text} {
			if strings.Contains(string(e.Body)+e.Subject, text) {
				t.Errorf("the log holds the text %s: %s", text, e.Body)
			}
		}
	}
	check := func(i int, want bool) {
		t.Helper()
		c, ok, err := g.CheckSession(t.Context(), sessions[i].Text)
		if ok != want || err != nil || ok && (c.Who.Name != "token:ann" || c.Role != route.Operator) {
			t.Errorf("CheckSession(%d) = %+v, %t, %v, want %t", i, c, ok, err, want)
		}
	}
	check(0, true)
	if err := g.EndSession(t.Context(), sessions[0].Text); err != nil {
		t.Fatal(err)
	}
	if err := g.EndSession(t.Context(), sessions[0].Text); err != nil {
		t.Errorf("ending a session again: %v", err)
	}
	check(0, false)
	check(1, true)
	if _, ok, _ := g.CheckSession(t.Context(), ""); ok {
		t.Error("no text is a session")
	}
	*now = now.Add(sessionLife)
	check(1, false)
	*now = now.Add(-time.Second)
	check(1, true)
	if _, err := g.RevokeToken(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	check(1, false)
	check(2, false)
	if _, ok := begin(t, g, token.Text); ok {
		t.Error("a token that was revoked begins a session")
	}
}

// TestLoginCode: a code begins one session, as the person who asked for it, for some minutes.
func TestLoginCode(t *testing.T) {
	t.Parallel()
	g, _, now := newGate()
	if _, err := g.CreateLogin(t.Context()); code(err) != "login_unknown" {
		t.Errorf("CreateLogin for a person that is not known = %v", err)
	}
	ctx := caller.With(t.Context(), audit.Who{Name: "ann", UID: 7})
	made, err := g.CreateLogin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := begin(t, g, made.Code)
	c, let, err := g.CheckSession(t.Context(), s.Text)
	if !ok || !let || err != nil || c.Who != (audit.Who{Name: "ann", UID: 7}) || c.Role != route.Admin {
		t.Errorf("the session of a code: %t, %+v, %t, %v", ok, c, let, err)
	}
	if _, ok := begin(t, g, made.Code); ok {
		t.Error("a code begins two sessions")
	}
	if made, err = g.CreateLogin(ctx); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(loginLife)
	if _, ok := begin(t, g, made.Code); ok {
		t.Error("a code is valid for ever")
	}
	for range maxLogins {
		if _, err := g.CreateLogin(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.CreateLogin(ctx); code(err) != "login_attempts" {
		t.Errorf("CreateLogin without bound = %v", err)
	}
	*now = now.Add(loginLife)
	if _, err := g.CreateLogin(ctx); err != nil {
		t.Errorf("codes that were not used are kept: %v", err)
	}
}
