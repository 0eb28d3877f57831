package forge

import (
	"net"
	"net/url"
	"strings"
)

// Locate returns the path of a repository at the code host with a web address, such as https://github.com. ok is false if
// the repository is not there. It reads https://HOST/OWNER/NAME, with .git or without, ssh://git@HOST/… and git@HOST:….
func Locate(web, repository string) (p Path, ok bool) {
	host, root, ok := splitAddress(web)
	if !ok {
		return p, false
	}
	at, path, ok := splitAddress(repository)
	if !ok {
		return p, false
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(repository), "://"); scheme == "http" || scheme == "https" {
		if at != host {
			return p, false
		}
		if path, ok = strings.CutPrefix(path, root+"/"); !ok {
			return p, false
		}
	} else if withoutPort(at) != withoutPort(host) { // SSH has a port of its own, and no folder
		return p, false
	}
	return ParsePath(strings.TrimSuffix(strings.Trim(path, "/"), ".git"))
}

// splitAddress returns the host of a URL, with its port, and the path.
func splitAddress(s string) (host, path string, ok bool) {
	if !strings.Contains(s, "://") { // git@HOST:PATH
		before, path, ok := strings.Cut(s, ":")
		if !ok || strings.ContainsAny(before, "/") {
			return "", "", false
		}
		return strings.ToLower(before[strings.LastIndexByte(before, '@')+1:]), path, true
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "", "", false
	}
	switch u.Scheme {
	case "http", "https", "ssh", "git+ssh", "ssh+git":
	default:
		return "", "", false
	}
	return strings.ToLower(u.Host), strings.TrimSuffix(u.Path, "/"), true
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
