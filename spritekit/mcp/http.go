package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	// httpPath is where the server answers.
	httpPath = "/mcp"
	// perRequest is the first version of the protocol that has no sessions: each request says all that it needs.
	perRequest = "2026-07-28"
	// idleSession ends the session of a client that went away without a word.
	idleSession = time.Hour
	// lingers is how long connections may take to end after the last call did.
	lingers = 2 * time.Second
)

// HTTP serves clients over streamable HTTP at addr, such as 127.0.0.1:0, until ctx ends; calls that run then are cancelled
// and waited for. ready is called once, with the URL, when clients may connect. Only loopback is allowed: every client
// of the port can use all grants in the sprite. Requests that a web page of somewhere else makes, by name
// or by redirected DNS, are refused with 403.
func (s *Server) HTTP(ctx context.Context, addr string, ready func(url string)) error {
	if err := checkLoopback(addr); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fault.Failed("listen_failed", "serve MCP over HTTP: %v", err).WithHint("choose another port, or 0 for any that is free")
	}
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	server := &http.Server{Handler: s.newHandler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ready("http://" + listener.Addr().String() + httpPath)
	select {
	case err = <-served:
		return fmt.Errorf("serve MCP over HTTP: %w", err)
	case <-ctx.Done():
	}
	for session := range s.server.Sessions() {
		_ = session.Close() // its calls were cancelled; a client that is gone is no error
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingers)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // a client that holds its stream open
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve MCP over HTTP: %w", err)
	}
	return nil
}

// newHandler routes by the version of the protocol: since 2026-07-28 a request stands for itself, before there are sessions.
func (s *Server) newHandler() http.Handler {
	get := func(*http.Request) *sdk.Server { return s.server }
	sessions := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{MaxRequestBodyBytes: maxMessage, SessionTimeout: idleSession})
	requests := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
		MaxRequestBodyBytes: maxMessage, Stateless: true, PropagateRequestCancellation: true,
	})
	mux := http.NewServeMux()
	mux.HandleFunc(httpPath, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= perRequest {
			requests.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// checkLoopback refuses an address that others could reach. A name other than localhost might lead anywhere.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return skill.BadInput("", "%q is not an address: %v", addr, err).WithHint("such as 127.0.0.1:0")
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fault.Unsafe("not_loopback", "%s is not on loopback: whoever reaches it could do what this sprite may", addr).
			WithHint("serve 127.0.0.1, and let a tunnel of your own carry it further")
	}
	return nil
}
