package api

import (
	"context"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
)

// Access is the part of Service for people and programs that use the leader over HTTP.
type Access interface {
	// CreateLogin makes a code with which a browser begins one session, as the person who asks.
	CreateLogin(ctx context.Context) (Login, error)
	// CreateToken makes a token. Its text is returned once and stored nowhere.
	CreateToken(ctx context.Context, r TokenRequest) (NewToken, error)
	// Tokens lists the tokens, the oldest first.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken ends a token, by its name. Ending it again changes nothing.
	RevokeToken(ctx context.Context, name string) (Token, error)
}

// Token describes a token. Nothing in it lets a request in.
type Token struct {
	Name      string     `json:"name"`
	Role      route.Role `json:"role"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// TokenRequest is the body of a request for a token.
type TokenRequest struct {
	Name string     `json:"name"`
	Role route.Role `json:"role"`
	TTLS float64    `json:"ttl_s,omitempty"` // seconds; 0 is for ever
}

// NewToken is a token with its text.
type NewToken struct {
	Token
	Text string `json:"token"`
}

// Login is a code that lets a browser in once.
type Login struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
}

func accessRoutes(s Access) []route.Route {
	revoke := route.Raw[Token](route.Owner, http.MethodDelete, "/tokens/{id}", "Revoke a token.", exchange.MediaJSON, func(w http.ResponseWriter, r *http.Request) {
		out, err := s.RevokeToken(r.Context(), r.PathValue("id"))
		exchange.Reply(w, out, err)
	})
	return []route.Route{
		route.ListAll("/tokens", "List the tokens, the oldest first.", route.After, func(v Token) string { return v.Name }, func(r *http.Request) ([]Token, error) { return s.Tokens(r.Context()) }),
		route.Post(route.Owner, "/tokens", "Create a token. The answer is the only place of its text.",
			func(r *http.Request, in TokenRequest) (NewToken, error) { return s.CreateToken(r.Context(), in) }),
		revoke,
		route.Post(route.Owner, "/logins", "Create a code with which a browser begins one session.",
			func(r *http.Request, _ struct{}) (Login, error) { return s.CreateLogin(r.Context()) }),
	}
}

// CreateLogin makes a code with which a browser begins one session.
func (c AccessCalls) CreateLogin(ctx context.Context) (Login, error) {
	return call[Login](ctx, c.connection, "POST", Root+"/logins", nil, nil)
}

// CreateToken makes a token; see Access.
func (c AccessCalls) CreateToken(ctx context.Context, r TokenRequest) (NewToken, error) {
	return call[NewToken](ctx, c.connection, "POST", Root+"/tokens", nil, r)
}

// Tokens lists the tokens.
func (c AccessCalls) Tokens(ctx context.Context) ([]Token, error) {
	return callList[Token](ctx, c.connection, Root+"/tokens", nil)
}

// RevokeToken ends a token.
func (c AccessCalls) RevokeToken(ctx context.Context, name string) (Token, error) {
	return call[Token](ctx, c.connection, "DELETE", path("tokens", name), nil, nil)
}
