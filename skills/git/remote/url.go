package remote

import (
	"net"
	"net/url"
	"strings"
	"unicode"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// isSCP accepts user@host:path and host:path as ssh takes them.
func isSCP(text string) bool {
	host, path, ok := strings.Cut(text, ":")
	if user, rest, at := strings.Cut(host, "@"); at {
		if user == "" || !guard.Consists(user, func(c byte) bool { return guard.IsAlphanumeric(c) || c == '_' || c == '.' || c == '-' }) {
			return false
		}
		host = rest
	}
	return ok && host != "" && guard.IsAlphanumeric(host[0]) && guard.Consists(host, func(c byte) bool { return guard.IsAlphanumeric(c) || c == '.' || c == '-' }) &&
		path != "" && path[0] != '/' && path[0] != '\\' && !strings.Contains(path, ":")
}

// ParseURL accepts a remote URL: https, ssh, user@host:path, and http and git on loopback or, if insecure is set, on any
// machine. ok is false for a path, which the caller must check.
func ParseURL(text, pointer string, insecure bool) (src engine.Source, ok bool, err error) {
	unsafe := func(why string) error {
		return fault.Unsafe("unsafe", "%s %s", pointer, why).
			WithHint("use an https or ssh URL without credentials, or a path in the workspace")
	}
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	scheme, _, _ := strings.Cut(text, "://") // the rest may contain :: in an IPv6 address
	switch {
	case text == "":
		return src, false, skill.BadInput(pointer, "is empty")
	case strings.HasPrefix(text, "-"):
		return src, false, unsafe("looks like an option")
	case control(text):
		return src, false, unsafe("contains control characters")
	case strings.Contains(scheme, "::"):
		return src, false, unsafe("names a remote helper")
	}
	if !strings.Contains(text, "://") {
		if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, ".") && isSCP(text) {
			return engine.Source{URL: text, Protocol: "ssh"}, true, nil
		}
		return src, false, nil
	}
	u, perr := url.Parse(text)
	if perr != nil {
		return src, false, unsafe("is not a URL")
	}
	if control(u.Path) || control(u.Host) || control(u.User.Username()) {
		return src, false, unsafe("contains control characters")
	}
	if _, has := u.User.Password(); has {
		return src, false, unsafe("carries a password")
	}
	if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.Path, "/-") || strings.HasPrefix(u.User.Username(), "-") {
		return src, false, unsafe("looks like an option")
	}
	switch u.Scheme {
	case "file":
		return engine.Source{URL: u.Path}, false, nil
	case "http", "git":
		ip := net.ParseIP(u.Hostname())
		// host.lattice.internal is the loopback interface of the machine that runs the sprite.
		if loopback := u.Hostname() == "localhost" || u.Hostname() == "host.lattice.internal" || ip != nil && ip.IsLoopback(); !loopback && !insecure {
			return src, false, unsafe("is not encrypted: http and git are for loopback only")
		}
	case "https":
	case "ssh":
		return engine.Source{URL: text, Protocol: "ssh"}, true, nil
	default:
		return src, false, unsafe("has the scheme " + u.Scheme)
	}
	if u.User != nil {
		return src, false, unsafe("carries a user name, which may be a token")
	}
	return engine.Source{URL: text, Protocol: u.Scheme}, true, nil
}

// WithoutUser removes user and password from a URL, except for ssh, where the user is a login name.
func WithoutUser(text string) string {
	u, err := url.Parse(text)
	if scheme, rest, ok := strings.Cut(text, "://"); ok && err != nil { // git accepts such a URL, for example with a % in the password
		return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	}
	if err != nil || u.User == nil {
		return text
	}
	if _, has := u.User.Password(); u.Scheme != "ssh" || has {
		u.User = nil
	}
	return u.String()
}
