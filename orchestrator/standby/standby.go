// Package standby is a node of several on one database while another one leads: it waits until it may lead, and forwards the requests
// that come to it. Start with Node.
//
// It reads the lease of the database, and writes nothing. A request keeps its token or signature, which the leader checks.
package standby

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Node stands by. It is an [http.Handler].
type Node struct {
	Store string // URL of the database
	Log   zerolog.Logger

	lease  atomic.Pointer[store.Lease] // as last read
	silent atomic.Bool                 // the leader did not answer the last request that was forwarded
}

const (
	// every is how often the lease is read.
	every = 500 * time.Millisecond
	// forwarded marks requests that a node has forwarded: a second one does not, so that they never go round.
	forwarded = "Lattice-Forwarded"
)

// Await waits until this process may lead. It goes on while the server does not answer.
func (n *Node) Await(ctx context.Context) error {
	told := ""
	for {
		l, err := n.readLease(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && l.Free, errors.Is(err, store.ErrMissing): // opening it says whether it can be made
			return nil
		case err == nil:
			n.lease.Store(&l)
			if told != l.Holder {
				told = l.Holder
				n.Log.Info().Str("leader", l.Holder).Str("url", l.Address).Msg("stands by")
			}
		case errors.Is(err, store.ErrUnreachable):
			if told != "" {
				n.Log.Warn().Err(err).Msg("the database does not answer")
			}
			told = ""
		default:
			return problem.StoreProblem(fmt.Errorf("stand by: %w", err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

func (n *Node) readLease(ctx context.Context) (store.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return store.ReadLease(ctx, n.Store)
}

// ServeHTTP tells that this node lives and does not lead, and forwards other requests to the leader.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := n.lease.Load()
	switch {
	case r.URL.Path == "/healthz":
		_, _ = io.WriteString(w, "ok\n")
	case r.URL.Path == "/readyz":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "stands by\n")
	case l == nil || l.Address == "" || r.Header.Get(forwarded) != "":
		n.refuseRequest(w, "no node that serves leads at this moment")
	default:
		n.forwardRequest(w, r, l.Address)
	}
}

func (n *Node) forwardRequest(w http.ResponseWriter, r *http.Request, address string) {
	leader, err := url.Parse(address)
	if err != nil {
		n.refuseRequest(w, "the address of the leader is not valid")
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(leader)
			p.Out.Host = p.In.Host // the leader compares it with the origin of a page
			p.Out.Header.Set(forwarded, "1")
		},
		ModifyResponse: func(*http.Response) error {
			n.silent.Store(false)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil && !n.silent.Swap(true) {
				n.Log.Warn().Err(err).Str("url", address).Msg("the leader does not answer")
			}
			n.refuseRequest(w, "the leader does not answer")
		},
	}
	proxy.ServeHTTP(w, r)
}

// refuseRequest answers a request that no leader has answered.
func (n *Node) refuseRequest(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	exchange.WriteProblem(w, http.StatusServiceUnavailable, fault.Busy("node_stands_by", "this node stands by, and %s", why).WithHint("try again in a few seconds; a key makes asking twice the same as asking once"))
}
