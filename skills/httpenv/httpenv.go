// Package httpenv reads from the environment of a call how to reach servers by HTTP: [Proxy] chooses the proxy of a request, and
// [Roots] reads the certificates to trust. It is linked into spritekit-extra alone, because it brings TLS along.
package httpenv

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Vars are the variables of an environment.
type Vars map[string]string

// Parse reads an environment as os.Environ gives it.
func Parse(environ []string) Vars {
	vars := Vars{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	return vars
}

// Proxy returns the function that chooses the proxy for a URL. As with curl, HTTP_PROXY in capitals does not count: a request to
// a CGI program could set it.
func (v Vars) Proxy() func(*url.URL) (*url.URL, error) {
	return (&httpproxy.Config{
		HTTPProxy: v.first("http_proxy", "all_proxy", "ALL_PROXY"), HTTPSProxy: v.first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
		NoProxy: v.first("no_proxy", "NO_PROXY"),
	}).ProxyFunc()
}

// first returns the first of some variables that is set.
func (v Vars) first(names ...string) string {
	for _, name := range names {
		if v[name] != "" {
			return v[name]
		}
	}
	return ""
}

// Roots reads the certificates of the first of some variables that names a file; nil stands for those of the system.
func (v Vars) Roots(names ...string) (*x509.CertPool, error) {
	file := v.first(names...)
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the certificates to trust: %s holds none", file)
	}
	return pool, nil
}
