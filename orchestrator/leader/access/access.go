// Package access decides who may use a leader over HTTP, by tokens and by the sessions of browsers. Start with [Gate].
//
// Tokens and sessions are folds of entries of the audit log, which hold the digest of each and never its text. The package knows
// nothing of HTTP; package web asks it.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/spritekit/fault"
)

// subject is the subject of the entries about tokens in the audit log.
const subject = "tokens"

// Gate keeps tokens and lets callers in by them (api.Access). It is safe for concurrent use.
type Gate struct {
	Facts audit.Facts
	Now   func() time.Time

	mu       sync.Mutex       // guards all below
	failures []time.Time      // when the last requests came with a token that does not exist
	logins   map[string]login // codes that are not used yet, by their digests
	refused  map[string]bool  // keys of the entries about refused requests
}

// Within failureLife maxFailures requests may have a wrong token.
const (
	maxFailures = 10
	failureLife = time.Minute
)

// maxLife is the longest time after which a token can expire.
const maxLife = 100 * 365 * 24 * time.Hour

// fact is the body of an entry about a token: made, or revoked.
type fact struct {
	Name    string     `json:"name"`
	Role    route.Role `json:"role,omitempty"`
	Digest  string     `json:"sha256,omitempty"`
	Expires *time.Time `json:"expires_at,omitempty"`
	Revoked bool       `json:"revoked,omitempty"`
}

// entry is a token with the digest of its text.
type entry struct {
	api.Token
	digest string
}

// applyFact returns the tokens after a fact.
func applyFact(tokens []entry, at time.Time, f fact) []entry {
	if f.Revoked {
		for i := range tokens {
			if tokens[i].Name == f.Name && tokens[i].RevokedAt == nil {
				tokens[i].RevokedAt = &at
			}
		}
		return tokens
	}
	return append(tokens, entry{api.Token{Name: f.Name, Role: f.Role, CreatedAt: at, ExpiresAt: f.Expires}, f.Digest})
}

// isValid reports whether the token lets requests in at an instant.
func (e entry) isValid(now time.Time) bool {
	return e.RevokedAt == nil && (e.ExpiresAt == nil || now.Before(*e.ExpiresAt))
}

// hasValid reports whether the token with a digest lets requests in at an instant.
func hasValid(tokens []entry, digest string, now time.Time) bool {
	return slices.ContainsFunc(tokens, func(e entry) bool { return e.digest == digest && e.isValid(now) })
}

// load returns the tokens, and the sequence of the last entry about them.
func (g *Gate) load(ctx context.Context) (tokens []entry, seq uint64, err error) {
	err = g.Facts.AuditEntries(ctx, subject, 0, func(e audit.Entry) error {
		var f fact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return fmt.Errorf("read tokens: audit entry %d: %w", e.Seq, err)
		}
		tokens, seq = applyFact(tokens, e.At, f), e.Seq
		return nil
	})
	return tokens, seq, err
}

// digestToken is enough for texts of 128 random bits: there is nothing to guess from.
func digestToken(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// prefix lets scanners for secrets recognise a token.
const prefix = "lattice_"

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`) })

// CreateToken makes a token; see api.Access.
func (g *Gate) CreateToken(ctx context.Context, r api.TokenRequest) (api.NewToken, error) {
	switch {
	case !namePattern().MatchString(r.Name):
		return api.NewToken{}, fault.BadInput("bad_token", "%q is not the name of a token: it has small letters, digits, dots and hyphens", r.Name)
	case !slices.Contains(route.Roles(), r.Role) || r.Role == route.Owner:
		return api.NewToken{}, fault.BadInput("bad_token", "a token has the role viewer, operator or admin, not %q", r.Role)
	case r.TTLS < 0:
		return api.NewToken{}, fault.BadInput("bad_token", "a token cannot expire before it is made")
	case r.TTLS > maxLife.Seconds():
		return api.NewToken{}, fault.BadInput("bad_token", "a token expires within %d days or never", maxLife/(24*time.Hour))
	}
	tokens, seq, err := g.load(ctx)
	if err != nil {
		return api.NewToken{}, err
	}
	now := g.Now()
	if slices.ContainsFunc(tokens, func(e entry) bool { return e.Name == r.Name && e.isValid(now) }) {
		return api.NewToken{}, fault.Busy("token_exists", "there is a token %s already", r.Name).WithHint("lattice token revoke %s", r.Name)
	}
	made := api.NewToken{Token: api.Token{Name: r.Name, Role: r.Role, CreatedAt: now}, Text: prefix + strings.ToLower(rand.Text())}
	if r.TTLS > 0 {
		at := now.Add(time.Duration(r.TTLS * float64(time.Second))).UTC()
		made.ExpiresAt = &at
	}
	_, err = g.Facts.AddFact(ctx, audit.Entry{Kind: audit.Token, Subject: subject}, fact{Name: r.Name, Role: r.Role, Digest: digestToken(made.Text), Expires: made.ExpiresAt}, seq)
	if err != nil {
		return api.NewToken{}, err
	}
	return made, nil
}

// Tokens lists the tokens, the oldest first.
func (g *Gate) Tokens(ctx context.Context) ([]api.Token, error) {
	tokens, _, err := g.load(ctx)
	list := make([]api.Token, len(tokens))
	for i, e := range tokens {
		list[i] = e.Token
	}
	return list, err
}

// RevokeToken ends a token and the sessions that it began.
func (g *Gate) RevokeToken(ctx context.Context, name string) (api.Token, error) {
	tokens, seq, err := g.load(ctx)
	if err != nil {
		return api.Token{}, err
	}
	at := slices.IndexFunc(tokens, func(e entry) bool { return e.Name == name && e.RevokedAt == nil })
	if at < 0 {
		for _, e := range slices.Backward(tokens) {
			if e.Name == name {
				return e.Token, nil
			}
		}
		return api.Token{}, fault.NotFound("token_not_found", "there is no token %.64q", name).WithHint("lattice token ls")
	}
	f := fact{Name: name, Revoked: true}
	e, err := g.Facts.AddFact(ctx, audit.Entry{Kind: audit.Token, Subject: subject}, f, seq)
	if err != nil {
		return api.Token{}, err
	}
	return applyFact(tokens, e.At, f)[at].Token, nil
}

// Caller is a person or program that was let in.
type Caller struct {
	Who  audit.Who
	Role route.Role
}

// CheckToken returns the caller with a token, and whether the token exists. After many wrong tokens wait says how long another one
// has to wait; a right one never does.
func (g *Gate) CheckToken(ctx context.Context, text string) (c Caller, ok bool, wait time.Duration, err error) {
	tokens, _, err := g.load(ctx)
	if err != nil {
		return Caller{}, false, 0, err
	}
	now, sum := g.Now(), digestToken(text)
	for _, e := range tokens {
		if e.digest == sum && e.isValid(now) {
			return Caller{Who: audit.Who{Name: "token:" + e.Name, UID: -1}, Role: e.Role}, true, 0, nil
		}
	}
	return Caller{}, false, g.noteFailure(now), nil
}

// noteFailure counts a wrong token, and returns how long the next one has to wait.
func (g *Gate) noteFailure(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = slices.DeleteFunc(g.failures, func(at time.Time) bool { return now.Sub(at) >= failureLife })
	if len(g.failures) < maxFailures {
		g.failures = append(g.failures, now)
		return 0
	}
	return failureLife - now.Sub(g.failures[0])
}
