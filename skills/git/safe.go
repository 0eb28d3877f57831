package git

import (
	"net"
	"net/url"
	"strings"
	"unicode"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Names are judged by loops, not by patterns: a global pattern is compiled at the start of every skill, also of those
// that never see a name.

func isRemoteName(s string) bool {
	return s != "" && (isAlnum(s[0]) || s[0] == '_') && consists(s, func(c byte) bool { return isAlnum(c) || c == '_' || c == '.' || c == '-' })
}

func isTrailerName(s string) bool {
	return s != "" && isLetter(s[0]) && consists(s, func(c byte) bool { return isAlnum(c) || c == '-' })
}

// isSCP accepts user@host:path and host:path as ssh takes them.
func isSCP(text string) bool {
	host, path, ok := strings.Cut(text, ":")
	if user, rest, at := strings.Cut(host, "@"); at {
		if user == "" || !consists(user, func(c byte) bool { return isAlnum(c) || c == '_' || c == '.' || c == '-' }) {
			return false
		}
		host = rest
	}
	return ok && host != "" && isAlnum(host[0]) && consists(host, func(c byte) bool { return isAlnum(c) || c == '.' || c == '-' }) &&
		path != "" && path[0] != '/' && path[0] != '\\' && !strings.Contains(path, ":")
}

func consists(s string, of func(byte) bool) bool {
	for i := range len(s) {
		if !of(s[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isAlnum(c byte) bool  { return isLetter(c) || '0' <= c && c <= '9' }

// parseURL judges a remote URL: https, ssh, user@host:path, and http and git on loopback, with insecure set of any
// machine. For a path, which the caller checks, ok is false.
func parseURL(text, pointer string, insecure bool) (src engine.Source, ok bool, err error) {
	unsafe := func(why string) error {
		return fault.Unsafe("unsafe", "%s %s", pointer, why).
			WithHint("use an https or ssh URL without credentials, or a path in the workspace")
	}
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	scheme, _, _ := strings.Cut(text, "://") // what follows may hold :: in an IPv6 address
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

// withoutUser removes user and password from a URL, except for ssh, where the user is a login name.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	if _, has := u.User.Password(); u.Scheme != "ssh" || has {
		u.User = nil
	}
	return u.String()
}

// checkRef refuses names that are not plain names of a branch or tag (the rules of git check-ref-format that matter to a
// command line).
func checkRef(name, pointer string) error {
	bad := name == "" || name == "@" || name == "HEAD" || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "//") ||
		strings.Contains(name, "@{") || strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, unicode.IsControl)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return fault.Unsafe("unsafe", "%s %q is not the name of a branch or tag", pointer, name).
			WithHint("name it in full, such as main or v1.2; where a commit will do, git.rev_parse gives the id of HEAD~1 and the like")
	}
	return nil
}
