package worktree

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// risk is a kind of change that can do harm outside of the repository. Kinds are in the order in which they are shown.
type risk int

const (
	riskCI risk = iota
	riskSubmoduleConfig
	riskSubmodule
	riskLink
	riskGit
	riskMachine
	riskBinary
	risks
)

// description returns the text of a kind for the person who approves.
func (r risk) description() string {
	switch r {
	case riskCI:
		return "changes programs that the code host or its CI runs"
	case riskSubmoduleConfig:
		return "changes where submodules come from"
	case riskSubmodule:
		return "submodule"
	case riskLink:
		return "symbolic link that leaves the tree"
	case riskGit:
		return "changes how git treats files"
	case riskMachine:
		return "runs, or instructs agents, on machines that open the repository"
	default:
		return "binary file"
	}
}

// maxNamed is how many paths of one kind are named, so that decoys of one kind hide no other.
const maxNamed = 5

// ciFiles are files that make a code host or CI system run programs. A pattern is a path from the root; one without "/"
// matches in every folder, one that ends in "/" everything below. All are in lower case.
var ciFiles = []string{
	".github/", ".gitea/", ".forgejo/", ".gitlab/", ".circleci/", ".buildkite/", ".woodpecker/", ".builds/", ".teamcity/",
	".semaphore/", ".tekton/", ".azure-pipelines/", ".azure/", ".pipelines/", ".harness/", ".ci/", ".drone/", "zuul.d/", ".zuul.d/", ".aws/", ".codebuild/",
	"jenkinsfile", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", ".drone.yml",
	".drone.star", ".drone.jsonnet", ".woodpecker.yml", ".woodpecker.yaml", ".build.yml", ".cirrus.yml", ".cirrus.star",
	"appveyor.yml", ".appveyor.yml", "cloudbuild.yaml", "cloudbuild.yml", "cloudbuild.json", "buildspec.yml", "buildspec.yaml",
	"codefresh.yml", ".gitpod.yml", "wercker.yml", ".zuul.yaml", "zuul.yaml", ".onedev-buildspec.yml", ".space.kts",
	"bitrise.yml", "codemagic.yaml", "netlify.toml", "vercel.json", ".scrutinizer.yml", ".readthedocs.yml", ".readthedocs.yaml",
	"codeowners", ".goreleaser.yml", ".goreleaser.yaml",
}

// machineFiles make machines that check out the repository run programs, or instruct agents there.
var machineFiles = []string{
	".husky/", ".githooks/", ".devcontainer/", ".vscode/", ".idea/", ".claude/", ".cursor/", ".codex/", ".gemini/",
	".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".envrc", ".mcp.json", "claude.md", "agents.md", "gemini.md", ".cursorrules",
}

// matchesAny reports whether a path is one of list, as described at ciFiles.
func matchesAny(p string, list []string) bool {
	p = strings.ToLower(p)
	base := path.Base(p)
	for _, entry := range list {
		if dir := strings.HasSuffix(entry, "/"); dir && strings.HasPrefix(p, entry) || !dir && base == entry {
			return true
		}
	}
	return false
}

// classifyRisk finds the kind of a change by its path and mode; false for ordinary files. Links are judged by their targets.
func (c change) classifyRisk() (risk, bool) {
	base := strings.ToLower(path.Base(c.path))
	switch {
	case c.newMode == "160000":
		return riskSubmodule, true
	case matchesAny(c.path, ciFiles), strings.HasSuffix(base, ".gitlab-ci.yml"), strings.HasPrefix(base, "jenkinsfile."):
		return riskCI, true
	case base == ".gitmodules":
		return riskSubmoduleConfig, true
	case base == ".gitattributes", base == ".lfsconfig":
		return riskGit, true
	case matchesAny(c.path, machineFiles):
		return riskMachine, true
	}
	return 0, false
}

// diffWarnings returns a warning for each kind of change that can do harm outside the repository. Paths like .git cannot
// occur here: index-pack --strict refuses them.
func (q quarantine) diffWarnings(ctx context.Context, changes []change, lines map[string][2]int) ([]string, error) {
	var links []string
	for _, c := range changes {
		if c.newMode == "120000" {
			links = append(links, c.newOID)
		}
	}
	targets, _, err := q.readObjects(ctx, "blob", links)
	if err != nil {
		return nil, err
	}
	var found [risks][]string
	for _, c := range changes {
		name := cleanLine(c.path)
		if c.status == "D" {
			name += " (deleted)"
		}
		if r, ok := c.classifyRisk(); ok {
			found[r] = append(found[r], name)
		}
		if to := string(targets[c.newOID]); c.newMode == "120000" && leavesTree(c.path, to) {
			found[riskLink] = append(found[riskLink], name+" → "+cleanLine(to))
		}
		if lines[c.path][0] < 0 && c.status != "D" {
			found[riskBinary] = append(found[riskBinary], name)
		}
	}
	var out []string
	for r, names := range found {
		if len(names) > 0 {
			out = append(out, risk(r).warningLine(names))
		}
	}
	return out, nil
}

// warningLine returns the warning about the paths of one kind.
func (r risk) warningLine(names []string) string {
	count, more := "", ""
	if len(names) > 1 {
		count = fmt.Sprintf(" (%d)", len(names))
	}
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(", and %d more", n)
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = shortenName(name)
	}
	return r.description() + count + ": " + strings.Join(short, ", ") + more
}

// shortenName keeps both ends of a name that is too long to be read.
func shortenName(name string) string {
	const most = 120
	if text := []rune(name); len(text) > most {
		return string(text[:most/2]) + "…" + string(text[len(text)-most/2:])
	}
	return name
}

// leavesTree reports whether a symbolic link at p pointing to "to" names something outside of the tree, or inside .git.
func leavesTree(p, to string) bool {
	if path.IsAbs(to) {
		return true
	}
	end := path.Join(path.Dir(p), to)
	first, _, _ := strings.Cut(end, "/")
	return first == ".." || strings.EqualFold(first, ".git")
}
