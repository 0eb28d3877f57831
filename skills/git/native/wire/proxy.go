package wire

import (
	"net"
	"net/url"
	"strings"
)

// proxies says through which proxy a URL is reached. It is the part of the usual rules that curl and git share.
type proxies struct {
	http, https string
	not         []string // hosts, domains with or without a dot before them, networks, "*"
}

// environment reads NAME=value pairs. As with curl, HTTP_PROXY in capitals does not count: a server's request could set it.
func environment(env []string) map[string]string {
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	return values
}

// first is the first of some variables that is set.
func first(env map[string]string, names ...string) string {
	for _, n := range names {
		if env[n] != "" {
			return env[n]
		}
	}
	return ""
}

func proxiesOf(env map[string]string) proxies {
	return proxies{
		http: first(env, "http_proxy", "all_proxy", "ALL_PROXY"), https: first(env, "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
		not: strings.FieldsFunc(first(env, "no_proxy", "NO_PROXY"), func(r rune) bool { return r == ',' || r == ' ' }),
	}
}

// of returns the proxy for a URL, nil for none. This machine is reached without.
func (p proxies) of(u *url.URL) (*url.URL, error) {
	through := p.http
	if u.Scheme == "https" {
		through = p.https
	}
	if through == "" || p.excepts(strings.ToLower(u.Hostname())) {
		return nil, nil
	}
	if !strings.Contains(through, "://") {
		through = "http://" + through
	}
	return url.Parse(through)
}

func (p proxies) excepts(host string) bool {
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	for _, entry := range p.not {
		entry = strings.ToLower(entry)
		if name, _, err := net.SplitHostPort(entry); err == nil {
			entry = name
		}
		if _, network, err := net.ParseCIDR(entry); err == nil {
			if ip != nil && network.Contains(ip) {
				return true
			}
			continue
		}
		domain := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if entry == "*" || host == domain || domain != "" && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}
