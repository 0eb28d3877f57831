package mcp

import (
	"context"
	"net"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// maxMessage bounds a request over HTTP, in bytes.
const maxMessage = 4 << 20

// NewHandler serves clients over streamable HTTP. There are no sessions: each request stands for itself and acts with the
// rights of its token, which the requests to the leader carry. The caller has checked the token and the origin of the
// request; dial connects to the leader's interface for callers with tokens.
func NewHandler(env *setup.Env, dial func(context.Context) (net.Conn, error)) http.Handler {
	connections := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	serve := func(r *http.Request) *sdk.Server {
		s, err := New(env, Options{Over: &http.Client{Transport: tokenTransport{connections, r.Header.Get("Authorization")}}})
		if err != nil {
			env.Log.Error().Err(err).Msg("serve tools over HTTP")
			return nil // the answer is 400
		}
		return s.server
	}
	return sdk.NewStreamableHTTPHandler(serve, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxMessage, DisableLocalhostProtection: true,
	})
}

// tokenTransport adds a token to requests.
type tokenTransport struct {
	next  http.RoundTripper
	token string // the header Authorization
}

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", t.token)
	return t.next.RoundTrip(r)
}
