package remote

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// Absolute makes a repository spec independent of the working directory: a path is joined to cwd, a URL stays. A
// command that hands its spec to another process must call it first.
func Absolute(spec, cwd string) string {
	if spec == "" || IsURL(spec) || filepath.IsAbs(spec) {
		return spec
	}
	return filepath.Join(cwd, spec)
}

// IsURL reports whether git would take spec for a remote: scheme://… or host:path. An existing path is a path.
func IsURL(spec string) bool {
	if strings.Contains(spec, "://") {
		return true
	}
	colon := strings.IndexByte(spec, ':')
	if colon < 0 || strings.Contains(spec[:colon], "/") {
		return false
	}
	_, err := os.Lstat(spec)
	return err != nil
}

// SplitRef splits REPO[@REF] at its last @, unless a path or the user of a URL contains it. ref is "" if there is none.
func SplitRef(spec string) (repo, ref string) {
	i := strings.LastIndexByte(spec, '@')
	if i <= 0 || i == len(spec)-1 || strings.Contains(spec[i:], ":") { // no ref contains a colon, and user@host:path does
		return spec, ""
	}
	if _, rest, is := strings.Cut(spec, "://"); is && !strings.Contains(spec[len(spec)-len(rest):i], "/") {
		return spec, "" // scheme://user@host/path
	}
	if _, err := os.Lstat(spec); err == nil {
		return spec, ""
	}
	return spec[:i], spec[i+1:]
}

// NameOf returns the name of the folder into which git would clone a repository.
func NameOf(spec string) string {
	spec = strings.TrimRight(spec, "/")
	return strings.TrimSuffix(spec[strings.LastIndexAny(spec, "/:")+1:], ".git")
}

// CheckSpec refuses, with a *lattice.Refusal, a repository spec that no run may have: a URL that git would take for
// something else, or one with credentials, which would be stored with the run. It does not contact the remote.
func CheckSpec(spec string) error {
	if !IsURL(spec) {
		return nil
	}
	return CheckURL(spec)
}

// CheckURL refuses URLs that git would treat as an option or helper program, and URLs with credentials.
func CheckURL(spec string) error {
	const hint = "use https://…, ssh://…, user@host:path or file:///…"
	if strings.HasPrefix(spec, "-") || strings.ContainsFunc(spec, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return gitexec.Refuse("unsafe_url", hint, "the repository URL %q is not one", gitexec.CleanLine(spec))
	}
	scheme, _, ok := strings.Cut(spec, "://")
	if !ok { // user@host:path; "helper::address" starts a program
		host, path, _ := strings.Cut(spec, ":")
		if strings.HasPrefix(path, ":") || host == "" || strings.HasPrefix(path, "-") {
			return gitexec.Refuse("unsafe_url", hint, "the repository URL %q names a helper program", gitexec.CleanLine(spec))
		}
		return nil
	}
	switch scheme {
	case "https", "http", "ssh", "git", "file", "git+ssh", "ssh+git":
	default:
		return gitexec.Refuse("unsafe_url", hint, "repository URLs with %q are not supported", gitexec.CleanLine(scheme)+"://")
	}
	u, err := url.Parse(spec)
	if err != nil {
		return gitexec.Refuse("unsafe_url", hint, "the repository URL cannot be read")
	}
	if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") {
		return gitexec.Refuse("unsafe_url", hint, "the host of the repository URL starts with a dash")
	}
	_, secret := u.User.Password()
	if secret || (u.User != nil && (scheme == "https" || scheme == "http")) {
		return gitexec.Refuse("credentials_in_url", "remove them and use a git credential helper (git help credentials)",
			"the repository URL contains credentials, which would be stored with the run")
	}
	return nil
}

// StripCredentials removes user and password from an http(s) URL, and the password from any other.
func StripCredentials(remote string) string {
	u, err := url.Parse(remote)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return gitexec.CleanLine(remote)
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		u.User = nil
	} else if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}
