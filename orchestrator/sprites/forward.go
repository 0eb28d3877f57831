package sprites

import (
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Shell starts the best shell that a sprite has.
const Shell = `if command -v bash >/dev/null; then exec bash; fi; exec sh`

// Forward answers a request for a WebSocket with the socket of a command in a sprite. Messages pass as they are in both
// directions. It returns when either side has ended.
func (c *transport) Forward(w http.ResponseWriter, r *http.Request, name string, e Exec) {
	target, err := url.Parse(c.base + spritePath(name, "exec") + "?" + e.execQuery(e.Env).Encode())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: sentOnce{c.hc.Transport},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = target, ""
			for _, of := range []string{"Cookie", "Authorization", "Origin"} { // they are meant for this server
				p.Out.Header.Del(of)
			}
			c.setAuthorization(p.Out.Header)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}
