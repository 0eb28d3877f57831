// Package git holds the skills that work on git repositories, one file each: git.clone, git.status, git.add, git.commit,
// git.branch, git.checkout, git.fetch, git.push and git.worktree among them. A verb checks its input, opens the repository
// (repo.go), picks an engine and returns the engine's answer. Package guard checks names and repositories, package remote
// checks URLs and credentials. Package engine defines the engines; package system uses the git of the sprite and package
// native needs none. Each result names the engine that produced it.
//
// Sprites do not push: git.push gives a bundle to the orchestrator and waits, unless it was granted git:push.
package git

import (
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Skills returns the git skills. r starts their processes; native is the engine for images without git.
func Skills(r *proc.Reaper, native engine.Engine) []skill.Skill {
	f := family{reaper: r, native: native}
	return []skill.Skill{
		{Name: "git.add", Run: skill.Typed(f.Add)},
		{Name: "git.apply", Run: skill.Typed(f.Apply)},
		{Name: "git.branch", Run: skill.Typed(f.Branch)},
		{Name: "git.checkout", Run: skill.Typed(f.Checkout)},
		{Name: "git.clone", Run: skill.Typed(f.Clone)},
		{Name: "git.commit", Run: skill.Typed(f.Commit)},
		{Name: "git.diff", Run: skill.Typed(f.Diff)},
		{Name: "git.fetch", Run: skill.Typed(f.Fetch)},
		{Name: "git.handoff", Run: skill.Typed(f.Handoff)},
		{Name: "git.log", Run: skill.Typed(f.Log)},
		{Name: "git.merge_base", Run: skill.Typed(f.MergeBase)},
		{Name: "git.push", Run: skill.Typed(f.Push)},
		{Name: "git.restore", Run: skill.Typed(f.Restore)},
		{Name: "git.rev_parse", Run: skill.Typed(f.RevParse)},
		{Name: "git.show", Run: skill.Typed(f.Show)},
		{Name: "git.stash", Run: skill.Typed(f.Stash)},
		{Name: "git.status", Run: skill.Typed(f.Status)},
		{Name: "git.worktree", Run: skill.Typed(f.Worktree)},
	}
}
