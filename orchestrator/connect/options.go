package connect

import (
	"context"
	"net"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/equip"
)

// Options matter only to the process that leads.
type Options struct {
	Serve  bool // this process does nothing but lead
	Detach bool // this process never leads: a background one does
	// Via is the program for which this process makes requests, "" for a person; see audit.Who.
	Via string
	// Over carries the requests to a leader that is known to be there, nil for the leader of the state directory.
	Over *http.Client
	// Of lattice serve alone: flags in place of the settings.
	Spritekit string
	Network   equip.NetworkOptions
	// HTTP is the address at which the leader is also served to callers with tokens, "" for none; Anywhere allows one that
	// other machines reach although nothing is encrypted. Without HTTPRequired the leader leads although the address is taken.
	// TLSCert and TLSKey are files in PEM, "" for none.
	HTTP            string
	HTTPRequired    bool
	Anywhere        bool
	TLSCert, TLSKey string
	// Standby has this process lead a database while it renews its lease, and wait while another one does; see StandBy. At URL the
	// other nodes reach it; "" for the address of HTTP.
	Standby bool
	URL     string
	// MCP returns the handler that serves the Model Context Protocol next to the page, nil for none. It makes requests of its own,
	// with the token of its caller, over connections that dial opens.
	MCP func(dial func(ctx context.Context) (net.Conn, error)) http.Handler
}
