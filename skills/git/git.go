// Package git holds the skills that work on git repositories: git.clone, git.status, git.add, git.commit and git.push,
// one file each. Start with system.go: every skill drives the git of the sprite through it, with nothing inherited
// from the environment and nothing executable taken from the repository. safe.go holds what is refused before git
// starts, repo.go how a repository is opened.
//
// Sprites do not push: git.push hands a bundle to the orchestrator and waits, unless it was granted git:push.
package git

import (
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Skills lists the family. Its processes are started by r.
func Skills(r *proc.Reaper) []skill.Skill {
	f := family{reaper: r}
	return []skill.Skill{
		{Name: "git.add", Run: f.Add},
		{Name: "git.clone", Run: f.Clone},
		{Name: "git.commit", Run: f.Commit},
		{Name: "git.push", Run: f.Push},
		{Name: "git.status", Run: f.Status},
	}
}

// family is what the skills share.
type family struct{ reaper *proc.Reaper }
