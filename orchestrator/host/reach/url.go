package reach

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/services"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/patient"
)

// A sprite's URL is http://NAME.localhost:PORT/. Browsers take every name below localhost for this machine, so it works
// without a name server and without privilege. For programs that do not, a sprite gets an address of its own when one is
// asked for; see urladdress.go. A reverse proxy may hand on requests for NAME.HOST, with a HOST of Config.AllowHosts. It leads to the sprite's service with an HTTP port, else to port 8080, and
// wakes the sprite.
//
// The listener serves nothing else, above all not the API, and each sprite is an origin and a site of its own: names of two
// labels, such as these, have no parent for which a page could set cookies. A request that names another host than a sprite
// is refused, so that a name that was rebound to this machine reaches nothing.
const (
	urlDomain = ".localhost"
	// urlPatience is how long a request waits for a service of the sprite to listen.
	urlPatience = 10 * time.Second
	urlRetry    = 50 * time.Millisecond
	urlIdle     = 30 * time.Second // of connections into a sprite
	maxURLConns = 512              // requests at once, of one sprite
	urlHeader   = 10 * time.Second // for the head of a request
)

// urlServer serves the URLs of all sprites of a host.
type urlServer struct {
	*API
	port      int
	keys      urlKeys
	server    *http.Server
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	serving   sync.WaitGroup
	domains   []string      // below which a reverse proxy has sprites' names, with a dot in front
	giving    boltfile.Lock // guards the choice of an address
	addresses urlAddresses
}

// serveURLs listens on addr. With port 0 it takes the port of last time, so that URLs do not change, if it is free.
func (a *API) serveURLs(addr string) (*urlServer, error) {
	name, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(name); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%q is no loopback address such as 127.0.0.1:0: sprites' URLs are for this machine alone", addr)
	}
	last, key, err := a.Store.URLState()
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	if port == "0" && last != 0 {
		listener, _ = net.Listen("tcp", net.JoinHostPort(name, strconv.Itoa(last))) // taken by now: another one does
	}
	if listener == nil {
		if listener, err = net.Listen("tcp", addr); err != nil {
			return nil, err
		}
	}
	u := &urlServer{API: a, port: listener.Addr().(*net.TCPAddr).Port}
	u.keys = urlKeys{key: key, now: a.Now}
	if err := a.Store.SaveURLPort(u.port); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	u.transport = &http.Transport{
		DialContext: u.dialService, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: urlIdle, MaxConnsPerHost: maxURLConns,
	}
	quiet := log.New(io.Discard, "", 0) // errors of clients and sprites are not the host's
	u.proxy = &httputil.ReverseProxy{
		ErrorLog: quiet, Rewrite: rewriteRequest, Transport: u.transport, FlushInterval: -1, ErrorHandler: u.writeFailure,
		ModifyResponse: func(r *http.Response) error { r.Header.Del("Alt-Svc"); return nil }, // the port is not the sprite's to move
	}
	u.server = &http.Server{Handler: http.HandlerFunc(u.serveRequest), ErrorLog: quiet, ReadHeaderTimeout: urlHeader, IdleTimeout: 2 * time.Minute}
	listeners := []net.Listener{listener}
	if second, err := net.Listen("tcp", net.JoinHostPort("::1", strconv.Itoa(u.port))); err == nil && name == "127.0.0.1" {
		listeners = append(listeners, second) // some programs try ::1 first, and no other server may answer there
	}
	for _, name := range a.Config.AllowHosts {
		u.domains = append(u.domains, "."+name)
	}
	for _, l := range listeners {
		u.serveListener(l)
	}
	return u, u.restoreAddresses()
}

func (u *urlServer) serveListener(l net.Listener) {
	u.serving.Go(func() {
		err := u.server.Serve(patient.Listener(l))
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) { // or the sprite was deleted
			u.Config.Log.Error().Err(err).Stringer("at", l.Addr()).Msg("the URLs of sprites are no longer served")
		}
	})
}

// close ends the listeners. Requests under way have ended by then: Close of the host waits for them.
func (u *urlServer) close() error {
	if u == nil {
		return nil
	}
	err := u.server.Close()
	u.serving.Wait()
	u.transport.CloseIdleConnections()
	return err
}

// urlOf returns the URL of a sprite, "" when URLs are not served.
func (u *urlServer) urlOf(name string) string {
	if u == nil {
		return ""
	}
	return "http://" + u.hostOf(name) + "/"
}

func (u *urlServer) hostOf(name string) string { return name + urlDomain + ":" + strconv.Itoa(u.port) }

// spriteOf names the sprite that a Host header is about; false when it is about something else.
func (u *urlServer) spriteOf(header string) (string, bool) {
	host := wire.HostName(header)
	if name, ok := u.addresses.ownerOf(host); ok {
		return name, true
	}
	for _, domain := range append([]string{urlDomain}, u.domains...) {
		if name, ok := strings.CutSuffix(host, domain); ok {
			return name, records.ValidName(name)
		}
	}
	return "", false
}

// target is the destination of a request, kept in its context.
type target struct {
	sprite records.Sprite
	port   int
	secret string // the bearer token that let the request through, "" for none
}

type targetKey struct{}

func (u *urlServer) serveRequest(w http.ResponseWriter, r *http.Request) {
	name, ok := u.spriteOf(r.Host)
	if !ok {
		writePage(w, http.StatusMisdirectedRequest, "No such sprite", "This address serves sprites by their names, NAME.localhost, and nothing else.", "lattice sprite url NAME")
		return
	}
	done, ok := u.sprites.Admit()
	if !ok {
		writePage(w, http.StatusServiceUnavailable, "Shutting down", "The sprite host is ending.", "")
		return
	}
	defer done()
	rec, err := u.Store.Sprite(name)
	if err != nil {
		writePage(w, http.StatusNotFound, "No such sprite", "There is no sprite "+name+" on this machine.", "lattice sprite ls")
		return
	}
	if !u.admitRequest(w, r, rec) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(u.Context, cancel)()
	s, leave, err := u.reachSprite(ctx, name) // it stays awake as long as the request takes
	if err != nil {
		u.writeFailure(w, r, fmt.Errorf("wake the sprite: %w", err))
		return
	}
	defer leave()
	all, err := u.Store.Services(s.ID)
	if err != nil {
		u.writeFailure(w, r, err)
		return
	}
	to := target{sprite: rec}
	to.port, _ = services.HTTPPort(all)
	if u.hasBearer(r, rec) {
		to.secret = bearerToken(r)
	}
	u.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, targetKey{}, to)))
}

// rewriteRequest makes the request that the sprite gets: its own Host header, as the browser sent it, and nothing of ours.
func rewriteRequest(r *httputil.ProxyRequest) {
	to := r.In.Context().Value(targetKey{}).(target)
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host = net.JoinHostPort(to.sprite.Name, strconv.Itoa(to.port))
	r.Out.Host = r.In.Host
	r.SetXForwarded()
	withoutOurs(r.Out)
}

// dialService connects to a sprite's port, named as SPRITE:PORT. While a service is about to listen there it waits.
func (u *urlServer) dialService(ctx context.Context, _, addr string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, urlPatience)
	defer cancel()
	for {
		conn, err := u.dialSprite(ctx, name, net.JoinHostPort("localhost", port))
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || !u.isExpected(name) {
			return conn, err
		}
		select {
		case <-time.After(urlRetry):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// writeFailure tells a person why the sprite does not answer.
func (u *urlServer) writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	name, _ := u.spriteOf(r.Host)
	to, _ := r.Context().Value(targetKey{}).(target)
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has left
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, context.DeadlineExceeded):
		cause := fmt.Sprintf("Nothing listens on port %d of sprite %s.", to.port, name)
		if s := u.findWebService(name); s != nil {
			cause += fmt.Sprintf(" Its service %s is %s", s.Name, s.Status)
			if s.Problem != "" {
				cause += ": " + s.Problem
			}
			writePage(w, http.StatusBadGateway, "Nothing listens", cause+".", fmt.Sprintf("lattice sprite service logs %s %s", name, s.Name))
			return
		}
		writePage(w, http.StatusBadGateway, "Nothing listens", cause+" Have a program listen there, or say which service serves another port.", fmt.Sprintf("lattice sprite service create %s web --http-port 3000 -- CMD", name))
	default:
		u.Config.Log.Debug().Err(err).Str("sprite", name).Msg("serve a sprite's URL")
		writePage(w, http.StatusBadGateway, "The sprite does not answer", wire.Classify(err).Message, "lattice sprite show "+name)
	}
}

func writePage(w http.ResponseWriter, status int, title, cause, remedy string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_ = pageText().Execute(w, map[string]string{"Title": title, "Cause": cause, "Remedy": remedy}) // the client may be gone
}

var pageText = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Parse(`<!doctype html>
<title>{{.Title}}</title>
<body style="font:16px/1.5 sans-serif;max-width:40em;margin:4em auto;padding:0 1em">
<h1>{{.Title}}</h1>
<p>{{.Cause}}</p>
{{with .Remedy}}<p>Try: <code>{{.}}</code></p>{{end}}
`))
})

// findWebService returns the service of the sprite that has an HTTP port, nil when there is none.
func (u *urlServer) findWebService(name string) *services.Web {
	v, err := u.sprites.ServicesOf(name)
	if err != nil {
		return nil
	}
	return v.Web()
}

// isExpected reports whether a service of the sprite can still come to listen.
func (u *urlServer) isExpected(name string) bool {
	s := u.findWebService(name)
	return s != nil && s.Wanted
}

// URLOf returns the URL of a sprite, "" when URLs are not served.
func (a *API) URLOf(name string) string { return a.urls.urlOf(name) }

// OpenURLs serves the URLs of sprites on a loopback address; see serveURLs.
func (a *API) OpenURLs(addr string) (err error) {
	a.urls, err = a.serveURLs(addr)
	return err
}

// Close ends serving URLs.
func (a *API) Close() error { return a.urls.close() }

// addressOf is the URL of a sprite by its own address, "" when it has none.
func (u *urlServer) addressOf(name string) string {
	if u == nil {
		return ""
	}
	addr, ok := u.addresses.addressOf(name)
	if !ok {
		return ""
	}
	return "http://" + net.JoinHostPort(addr.String(), strconv.Itoa(u.port)) + "/"
}

// giveAddress gives a sprite an address of its own, if it has none yet. Sprites that are gone lose theirs first.
func (u *urlServer) giveAddress(name string) (string, error) {
	u.giving.Lock()
	defer u.giving.Unlock()
	if at := u.addressOf(name); at != "" {
		return at, nil
	}
	kept, err := u.Store.Addresses()
	if err == nil {
		err = u.addresses.dropGone(kept)
	}
	if err != nil {
		return "", fmt.Errorf("forget the addresses of sprites that are gone: %w", err)
	}
	var failed error
	for n := range addressTries {
		addr := proposeAddress(name, n)
		if !u.addresses.takeAddress(name, addr) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), strconv.Itoa(u.port)))
		if err != nil {
			u.addresses.dropAddress(name, addr)
			failed = err
			continue
		}
		if err := u.Store.SetAddress(name, addr); err != nil {
			u.addresses.dropAddress(name, addr)
			return "", errors.Join(err, l.Close())
		}
		u.addresses.keepListener(addr, l)
		u.serveListener(l)
		return u.addressOf(name), nil
	}
	if failed == nil {
		return "", wire.Refuse(http.StatusTooManyRequests, "too_many_addresses", fmt.Sprintf("%d sprites have an address of their own already; remove some sprites", maxAddresses))
	}
	return "", wire.Refuse(http.StatusNotImplemented, "no_address", "this machine gives a sprite no address of its own: "+failed.Error()+"; use lattice sprite proxy")
}

// restoreAddresses listens on the addresses that sprites had, and forgets those of sprites that are gone.
func (u *urlServer) restoreAddresses() error {
	kept, err := u.Store.Addresses()
	if err != nil {
		return err
	}
	for name, addr := range kept {
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), strconv.Itoa(u.port)))
		if err != nil || !u.addresses.takeAddress(name, addr) {
			u.Config.Log.Warn().Err(err).Stringer("address", addr).Msg("a sprite loses its address until it asks for one again")
			if l != nil {
				l.Close()
			}
			continue
		}
		u.addresses.keepListener(addr, l)
		u.serveListener(l)
	}
	return nil
}
