package action

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// targetForm matches the repositories that a request may name besides the run's: URLs and absolute paths without anything
// that the policy and git could read differently.
var targetForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(https://[A-Za-z0-9.-]+(:\d+)?/|file:///|ssh://(\w[\w-]*@)?[A-Za-z0-9.-]+(:\d+)?/|\w[\w-]*@[A-Za-z0-9][A-Za-z0-9.-]*:|/)[A-Za-z0-9._~/-]+$`)
})

// shortTarget matches OWNER/NAME, which stands for the run's repository, or for one at the same code host. Nothing is pushed to
// the latter.
var shortTarget = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\w[\w.-]*/\w[\w.-]*$`) })

// Target returns the repository of an action: the one that its parameters name, or own, the run's. It reports whether that
// is another one than the run's.
func Target(parameters json.RawMessage, own string) (repo string, foreign bool) {
	var p struct {
		Repo string `json:"repo"`
	}
	if json.Unmarshal(parameters, &p) != nil || p.Repo == "" {
		return own, false
	}
	named, mine := policy.RepositoryName(p.Repo), policy.RepositoryName(own)
	if own != "" && (named == mine || strings.Count(named, "/") == 1 && strings.HasSuffix(mine, "/"+named)) { // acme/site
		return own, false
	}
	return p.Repo, true
}

// checkTarget refuses a name of a repository that could mean another one to git than to the policy.
func checkTarget(repo string) error {
	_, path, ok := strings.Cut(repo, "://")
	if !ok {
		path = repo
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	if !targetForm().MatchString(repo) || slices.Contains(parts, ".") || slices.Contains(parts, "..") || slices.Contains(parts[1:], "") {
		return newRefusal("bad_parameters", "https://HOST/OWNER/NAME, or leave repo out", "the parameter repo is %.128q, not the URL of a repository", worktree.DisplayName(repo))
	}
	return remote.CheckSpec(repo)
}

// RequestOf returns an action as the policy sees it; own is the repository of its run, "" without one. The value of repo is
// the name of the target, also if the parameters leave it out.
func RequestOf(a lattice.Action, own string) policy.Request {
	q := policy.Request{Name: a.Name, Values: Values(a.Parameters)}
	repo, foreign := Target(a.Parameters, own)
	if q.Foreign = foreign; q.Values != nil && repo != "" {
		q.Values["repo"] = []string{policy.RepositoryName(repo)}
	}
	return q
}
