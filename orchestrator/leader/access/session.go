package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A session lets a browser in for a while. A token begins it, or a login code that the owner of the state directory was given.
// The sessions of a token end with the token. Each session is a subject of the audit log, by its digest, so that a request
// reads the entries of its own session alone.

const (
	sessionLife = 12 * time.Hour
	loginLife   = 10 * time.Minute
	maxLogins   = 100 // codes that are not used yet
)

// sessionFact is the body of an entry about a session: begun, or ended.
type sessionFact struct {
	Name    string     `json:"name"`
	UID     int        `json:"uid"`
	Role    route.Role `json:"role,omitempty"`
	Token   string     `json:"token_sha256,omitempty"` // that began it, "" for a login code
	Expires time.Time  `json:"expires_at,omitzero"`
	Ended   bool       `json:"ended,omitempty"`
}

// login is a code that begins one session.
type login struct {
	who     audit.Who
	expires time.Time
}

// Session is a session that began. Its text is stored nowhere.
type Session struct {
	Text    string
	Expires time.Time
}

// CreateLogin makes a code with which a browser begins a session as the person of ctx; see api.Access. Codes are kept in memory,
// by their digests.
func (g *Gate) CreateLogin(ctx context.Context) (api.Login, error) {
	who := caller.Of(ctx)
	if who == nil {
		return api.Login{}, fault.Denied("login_unknown", "the connection does not tell who asks for the login").WithHint("lattice token create NAME, and log in with the token")
	}
	made := api.Login{Code: strings.ToLower(rand.Text()), ExpiresAt: g.Now().Add(loginLife).UTC()}
	g.mu.Lock()
	defer g.mu.Unlock()
	for sum, l := range g.logins {
		if !g.Now().Before(l.expires) {
			delete(g.logins, sum)
		}
	}
	if len(g.logins) >= maxLogins {
		return api.Login{}, fault.Busy("login_attempts", "%d logins were asked for and not used", len(g.logins)).WithHint("use one of them, or wait %s", loginLife)
	}
	if g.logins == nil {
		g.logins = map[string]login{}
	}
	g.logins[digestToken(made.Code)] = login{who: *who, expires: made.ExpiresAt}
	return made, nil
}

// takeLogin removes a code that is valid.
func (g *Gate) takeLogin(text string) (login, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := digestToken(text)
	l, ok := g.logins[sum]
	delete(g.logins, sum)
	return l, ok && g.Now().Before(l.expires)
}

// BeginSession begins a session with a token or a login code. ok and wait are as in CheckToken.
func (g *Gate) BeginSession(ctx context.Context, secret string) (s Session, ok bool, wait time.Duration, err error) {
	f := sessionFact{Expires: g.Now().Add(sessionLife).UTC()}
	if l, isCode := g.takeLogin(secret); isCode {
		f.Name, f.UID, f.Role = l.who.Name, l.who.UID, route.Admin
	} else {
		c, ok, wait, err := g.CheckToken(ctx, secret)
		if err != nil || !ok {
			return Session{}, false, wait, err
		}
		f.Name, f.UID, f.Role, f.Token = c.Who.Name, c.Who.UID, c.Role, digestToken(secret)
	}
	s = Session{Text: strings.ToLower(rand.Text()), Expires: f.Expires}
	ctx = caller.With(ctx, audit.Who{Name: f.Name, UID: f.UID})
	_, err = g.Facts.AddFact(ctx, audit.Entry{Kind: audit.Session, Subject: sessionSubject(s.Text)}, f, 0)
	return s, err == nil, 0, err
}

// sessionSubject returns the subject of a session in the audit log, which does not let anyone in.
func sessionSubject(text string) string { return "session:" + digestToken(text)[:32] }

// loadSession returns the beginning of a session and the sequence of its last entry; ok is false if it has ended.
func (g *Gate) loadSession(ctx context.Context, text string) (begun sessionFact, seq uint64, ok bool, err error) {
	err = g.Facts.AuditEntries(ctx, sessionSubject(text), 0, func(e audit.Entry) error {
		var f sessionFact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return fmt.Errorf("read session: audit entry %d: %w", e.Seq, err)
		}
		if seq = e.Seq; !f.Ended {
			begun = f
		}
		ok = !f.Ended
		return nil
	})
	return begun, seq, ok && err == nil && g.Now().Before(begun.Expires), err
}

// CheckSession returns the caller with a session, and whether it lets requests in.
func (g *Gate) CheckSession(ctx context.Context, text string) (c Caller, ok bool, err error) {
	s, _, ok, err := g.loadSession(ctx, text)
	if err != nil || !ok {
		return Caller{}, false, err
	}
	if s.Token != "" {
		tokens, _, err := g.load(ctx)
		if err != nil || !hasValid(tokens, s.Token, g.Now()) {
			return Caller{}, false, err
		}
	}
	return Caller{Who: audit.Who{Name: s.Name, UID: s.UID}, Role: s.Role}, true, nil
}

// EndSession ends a session. Ending it again changes nothing.
func (g *Gate) EndSession(ctx context.Context, text string) error {
	s, seq, ok, err := g.loadSession(ctx, text)
	if err != nil || !ok {
		return err
	}
	_, err = g.Facts.AddFact(ctx, audit.Entry{Kind: audit.Session, Subject: sessionSubject(text)}, sessionFact{Name: s.Name, UID: s.UID, Ended: true}, seq)
	return err
}
