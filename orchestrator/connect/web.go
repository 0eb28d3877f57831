package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/patient"
	"github.com/spritekit/lattice/orchestrator/web"
	"github.com/spritekit/lattice/spritekit/fault"
)

// webServer serves a leader to callers with tokens and to browsers.
type webServer struct {
	listener net.Listener
	server   *http.Server
	url      string
	encrypts bool // server.TLSConfig does not say: each server gets one when it begins to serve

	inside  *insideListener
	insider *http.Server // serves requests of this process; one server cannot serve with and without TLS, since it sets up HTTP/2 once
}

// listenWeb listens at the address of the options, if they have one.
func listenWeb(o Options) (*webServer, error) {
	if o.HTTP == "" {
		return nil, nil
	}
	var certificates *tls.Config
	scheme := "http://"
	if o.TLSCert != "" {
		pair, err := loadCertificate(o.TLSCert, o.TLSKey)
		if err != nil {
			return nil, fault.BadInput("bad_certificate", "read the certificate: %v", err).WithHint("--tls-cert and --tls-key name files in PEM")
		}
		scheme, certificates = "https://", &tls.Config{GetCertificate: pair.findPair, MinVersion: tls.VersionTLS12}
	}
	listener, err := net.Listen("tcp", o.HTTP)
	if err != nil {
		return nil, fault.Busy("address_taken", "%v", err).WithHint("give --http another port; 127.0.0.1:0 takes a free one")
	}
	server := &http.Server{TLSConfig: certificates, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	return &webServer{
		listener: listener, server: server, url: scheme + nameListener(listener), encrypts: certificates != nil,
		inside: newInsideListener(), insider: &http.Server{ReadHeaderTimeout: 10 * time.Second},
	}, nil
}

// nameListener returns the address under which this machine reaches a listener.
func nameListener(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return l.Addr().String()
}

// serveLeader sets the leader that is served.
func (s *webServer) serveLeader(l *leader.Leader, o Options) {
	var tools http.Handler
	if o.MCP != nil {
		tools = o.MCP(s.inside.dialInside)
	}
	s.server.Handler = web.Handler(l, tools, !o.Anywhere && web.CheckAddress(o.HTTP, false, false) == nil)
	s.insider.Handler = s.server.Handler
}

func (s *webServer) run() error {
	serve := s.server.Serve
	if s.encrypts {
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	if err := serve(patient.Listener(s.listener)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve callers with tokens: %w", err)
	}
	return nil
}

// runInside serves the requests that the handler of the Model Context Protocol makes.
func (s *webServer) runInside() error {
	if err := s.insider.Serve(s.inside); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve requests of tools: %w", err)
	}
	return nil
}

// shutDown waits for requests until ctx ends, and cuts off the others.
func (s *webServer) shutDown(ctx context.Context) (err error) {
	for _, server := range []*http.Server{s.server, s.insider} {
		if server.Shutdown(ctx) != nil {
			err = errors.Join(err, server.Close())
		}
	}
	return err
}

// close ends a server that did not begin.
func (s *webServer) close() error {
	if s == nil {
		return nil
	}
	return s.listener.Close()
}
