package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/secret"
)

// Secrets is the part of Service for credentials that sprites ask for. Nothing in it holds a value.
type Secrets interface {
	// Secrets lists the secrets of the settings, with their leases.
	Secrets(ctx context.Context, all bool) ([]SecretView, error)
	// TestSecret reads a secret from its provider.
	TestSecret(ctx context.Context, name string) (SecretView, error)
	// RevokeSecrets ends leases: one by its id, or those of a secret or a run. It returns those that it ended.
	RevokeSecrets(ctx context.Context, of string) ([]secret.Lease, error)
}

// SecretView describes a secret of the settings.
type SecretView struct {
	Name     string      `json:"name"`
	Provider string      `json:"provider,omitempty"`
	From     string      `json:"from,omitempty"`
	Variable string      `json:"variable,omitempty"`
	Skills   []string    `json:"skills,omitempty"`
	TTL      string      `json:"ttl,omitempty"`
	Uses     int         `json:"uses,omitempty"`
	Resolves bool        `json:"resolves,omitempty"` // it was read
	Problem  string      `json:"problem,omitempty"`  // why it cannot be read
	Leases   []LeaseView `json:"leases,omitempty"`
}

// LeaseView describes a lease.
type LeaseView struct {
	secret.Lease
	State string `json:"state"`
}

func secretRoutes(s Secrets) []route.Route {
	return []route.Route{
		route.ListAll("/secrets", "List the secrets of the settings, with their leases and without values.", route.After, func(v SecretView) string { return v.Name }, func(r *http.Request) ([]SecretView, error) { return s.Secrets(r.Context(), exchange.IsSet(r, "all")) },
			route.Bool("all", "with leases that have ended")),
		route.Post(route.Admin, "/secrets/{id}/test", "Read a secret from its provider, and say whether that worked.",
			func(r *http.Request, _ struct{}) (SecretView, error) {
				return s.TestSecret(r.Context(), r.PathValue("id"))
			}),
		route.Post(route.Operator, "/secrets/{id}/revoke", "End leases: one by its id, or those of a secret or a run.",
			func(r *http.Request, _ struct{}) ([]secret.Lease, error) {
				return s.RevokeSecrets(r.Context(), r.PathValue("id"))
			}),
	}
}

// Secrets lists the secrets of the settings, with their leases.
func (c AccessCalls) Secrets(ctx context.Context, all bool) ([]SecretView, error) {
	return callList[SecretView](ctx, c.connection, Root+"/secrets", url.Values{"all": {strconv.FormatBool(all)}})
}

// TestSecret reads a secret from its provider.
func (c AccessCalls) TestSecret(ctx context.Context, name string) (SecretView, error) {
	return call[SecretView](ctx, c.connection, "POST", path("secrets", name, "test"), nil, nil)
}

// RevokeSecrets ends leases.
func (c AccessCalls) RevokeSecrets(ctx context.Context, of string) ([]secret.Lease, error) {
	return call[[]secret.Lease](ctx, c.connection, "POST", path("secrets", of, "revoke"), nil, nil)
}
