package connect

import (
	"context"
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

// webServer serves a leader to callers with tokens.
type webServer struct {
	listener net.Listener
	server   *http.Server
}

// listenWeb listens at the address of the options, if they have one.
func listenWeb(l *leader.Leader, o Options) (*webServer, error) {
	if o.HTTP == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", o.HTTP)
	if err != nil {
		return nil, fault.Busy("address_taken", "%v", err).WithHint("give --http another port; 127.0.0.1:0 takes a free one")
	}
	return &webServer{listener, &http.Server{Handler: web.Handler(l, !o.Anywhere), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}}, nil
}

func (s *webServer) run() error {
	if err := s.server.Serve(patient.Listener(s.listener)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve callers with tokens: %w", err)
	}
	return nil
}

// shutdown waits for requests until ctx ends, and cuts off the others.
func (s *webServer) shutdown(ctx context.Context) error {
	if s.server.Shutdown(ctx) == nil {
		return nil
	}
	return s.server.Close()
}

// WebAddress returns the URL at which the leader is served to callers with tokens, "" if it is not.
func (s *leadership) WebAddress() string {
	if s.web == nil {
		return ""
	}
	return "http://" + s.web.listener.Addr().String()
}
