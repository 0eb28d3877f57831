// Package remote contacts git repositories elsewhere with the user's git and credentials, and knows how repositories, their
// branches and commits are written. Start with Client. It never changes a remote: its caller's commands do. Text from
// remotes is cleaned before it is shown.
package remote

import (
	"context"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// Client runs git commands that contact a remote.
type Client struct {
	Git *gitexec.Runner

	// Authorize returns the value of the header Authorization for a URL of http or https, "" where the user's own git
	// knows it. It may be nil.
	Authorize func(ctx context.Context, url string) (string, error)
}

// Run runs a command that contacts url, with a credential for it. git gets the credential in its environment, where
// other users of the machine cannot see it.
func (c Client) Run(ctx context.Context, url string, command gitexec.Command) (gitexec.Result, error) {
	if c.Authorize != nil && strings.HasPrefix(url, "http") {
		header, err := c.Authorize(ctx, url)
		if err != nil {
			return gitexec.Result{}, err
		}
		if header != "" {
			command.Env = append(command.Env, c.Git.ConfigEnv("http."+url+".extraHeader", "Authorization: "+header)...)
		}
	}
	return c.Git.Run(ctx, command)
}

// Refs holds some of the refs that a remote advertises.
type Refs struct {
	Head   string            // the default branch, "" when the remote has none
	Values map[string]string // full ref name → commit
}

// List asks a remote for exactly these refs.
func (c Client) List(ctx context.Context, url string, refs ...string) (Refs, error) {
	out := Refs{Values: map[string]string{}}
	r, err := c.Run(ctx, url, gitexec.Command{User: true, Args: append([]string{"ls-remote", "--symref", "--end-of-options", url}, refs...)})
	if err != nil {
		return out, err
	}
	if r.Exit != 0 {
		return out, &Error{"contact " + StripCredentials(url), r.Stderr}
	}
	want := map[string]bool{}
	for _, ref := range refs {
		want[ref] = true
	}
	for l := range strings.Lines(string(r.Stdout)) {
		value, name, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
		if !ok || !want[name] { // ls-remote also matches longer names with the same tail
			continue
		}
		if ref, ok := strings.CutPrefix(value, "ref: "); ok {
			if b, ok := strings.CutPrefix(ref, "refs/heads/"); ok && name == "HEAD" && CheckBranch(b) == nil {
				out.Head = b
			}
			continue
		}
		if IsOID(value) {
			out.Values[name] = value
		}
	}
	return out, nil
}

// Error is a failure to contact a remote. It is temporary: the network or the credentials can be repaired.
type Error struct{ Doing, Stderr string }

func (e *Error) Error() string { return e.Doing + ": " + e.Stderr + " (" + e.Hint() + ")" }

// Hint returns a remedy, guessed from git's message.
func (e *Error) Hint() string {
	switch s := e.Stderr; {
	case strings.Contains(s, "Authentication failed"), strings.Contains(s, "could not read Username"),
		strings.Contains(s, "terminal prompts disabled"), strings.Contains(s, "Permission denied"), strings.Contains(s, "403"):
		return "git has no valid credential for this remote: try git ls-remote in a shell"
	case strings.Contains(s, "No space left"):
		return "free some disk space and try again"
	case e.IsAbsent():
		return "check the URL, and that you may read the repository"
	}
	return "check the network and try again"
}

// IsAbsent reports whether the remote answered that the repository does not exist.
func (e *Error) IsAbsent() bool {
	return slices.ContainsFunc([]string{"not found", "does not appear to be a git repository", "does not exist"}, func(words string) bool { return strings.Contains(e.Stderr, words) })
}
