package prepare

import (
	"context"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Rules finds the policy that holds for a run: the server's, made stricter by that of the run's repository.
type Rules struct {
	Server  func() ([]policy.Layer, error) // reads its layers
	Records *history.Records
	States  *history.States
	Git     *worktree.Git
}

// Of returns the policy of a run. The repository's part is the one of the base commit, recorded when the run was prepared.
func (r *Rules) Of(_ context.Context, run string) (policy.Policy, error) {
	rec, err := r.Records.LoadBrief(run)
	if err != nil {
		return policy.Policy{}, err
	}
	server, err := r.Server()
	if err != nil {
		return policy.Policy{}, err
	}
	p := policy.New(rec.Kept.Repo, server...)
	if rec.Kept.Repo == "" {
		return p, nil
	}
	at, _, err := r.States.Read(run)
	if err != nil {
		return p, err
	}
	repo, _ := at.State.Ctx["repo"].(map[string]any)
	text, _ := repo["policy"].(string)
	if text == "" {
		return p, nil
	}
	layer, err := repositoryLayer(text)
	return p.Narrow(layer), err
}

// Base returns the commit that a run of a repository begins with now, "" without a repository, and the policy that holds.
func (r *Rules) Base(ctx context.Context, repo string) (string, policy.Policy, error) {
	server, err := r.Server()
	if err != nil {
		return "", policy.Policy{}, err
	}
	p := policy.New(repo, server...)
	if repo == "" {
		return "", p, nil
	}
	commit, text, err := r.Git.Base(ctx, repo)
	if err != nil || text == "" {
		return commit, p, err
	}
	layer, err := repositoryLayer(text)
	return commit, p.Narrow(layer), err
}

// repositoryLayer reads the policy of a repository. One that cannot be used is a refusal.
func repositoryLayer(text string) (policy.Layer, error) {
	layer, findings := policy.Parse(worktree.PolicyFile, []byte(text))
	if findings = append(findings, policy.CheckRepository(layer)...); len(findings) == 0 {
		return layer, nil
	}
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = gitexec.Sanitize(f.Text())
	}
	return layer, &lattice.Refusal{Fault: protocol.Fault{Code: "policy_invalid", Hint: "lattice policy check " + worktree.PolicyFile + "; commit the repaired file",
		Message: "the policy of the repository cannot be used: " + strings.Join(lines, "; ")}}
}
