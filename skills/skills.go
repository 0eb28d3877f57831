// Package skills is the one list of the skills that spritekit brings along. Each family is a package of one shape: a
// file per verb, and a function Skills that names its members; the manifests lie in package manifests under the same
// names. To add a skill: write its manifest, its file, and its line in the family's list.
package skills

import (
	"cmp"
	"context"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/agent"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/ask"
	"github.com/spritekit/lattice/skills/checkpoint"
	"github.com/spritekit/lattice/skills/credential"
	"github.com/spritekit/lattice/skills/docs"
	"github.com/spritekit/lattice/skills/env"
	"github.com/spritekit/lattice/skills/exec"
	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/skills/foreign"
	"github.com/spritekit/lattice/skills/fs"
	"github.com/spritekit/lattice/skills/git"
	"github.com/spritekit/lattice/skills/git/delegate"
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/github"
	"github.com/spritekit/lattice/skills/loop"
	"github.com/spritekit/lattice/skills/notify"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/served"
	"github.com/spritekit/lattice/skills/test"
	"github.com/spritekit/lattice/skills/verify"
	"github.com/spritekit/lattice/skills/web"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Set is the skills of one process, which share the owner of the processes that they start. The zero value is ready.
type Set struct {
	// Git is the engine of the git skills in an image without git. Nil is the one of spritekit-extra.
	Git engine.Engine
	// Match compares answers of agents with schemas. Nil has it done by that second file.
	Match answer.Matcher

	reaper proc.Reaper
}

// All lists the built-in skills of a set of their own, sorted by name.
func All() []skill.Skill { return new(Set).All() }

// All lists the built-in skills, sorted by name. It is called once.
func (s *Set) All() []skill.Skill {
	second := extra.Beside(&s.reaper)
	if s.Git == nil {
		s.Git = delegate.New(second)
	}
	if s.Match == nil {
		s.Match = answer.AskExtra(second)
	}
	all := slices.Concat(
		agent.Skills(&s.reaper, git.Watch(&s.reaper, s.Git), s.Match),
		ask.Skills(),
		checkpoint.Skills(),
		credential.Skills(),
		env.Skills(),
		exec.Skills(&s.reaper),
		fs.Skills(),
		git.Skills(&s.reaper, s.Git),
		github.Skills(s.pushBranch),
		loop.Skills(),
		notify.Skills(),
		test.Skills(&s.reaper),
		web.Skills(second),
	)
	all = append(all, slices.Concat(docs.Skills(all), verify.Skills(all))...)
	slices.SortFunc(all, func(a, b skill.Skill) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Mark marks all programs that the skills of s start, so that KillMarked finds them. It is called before any skill is.
func (s *Set) Mark(mark string) { s.reaper.Mark = mark }

// KillMarked ends the programs that the skills of a marked Set left behind when their process was killed.
func KillMarked(mark string) { proc.KillMarked(mark) }

// pushBranch hands the commits of a pull request from one family to the other; neither knows of its siblings.
func (s *Set) pushBranch(ctx context.Context, c *skill.Call, repo, branch, base string) (github.Branch, error) {
	b, err := git.Bundle(&s.reaper, s.Git)(ctx, c, repo, branch, base)
	return github.Branch{Name: b.Branch, BaseSHA: b.Base, HeadSHA: b.Head, Bundle: b.Path, SHA256: b.SHA256, Origin: b.Origin}, err
}

// Foreign calls a third-party skill, whose manifest is m and whose command line is argv, as skill.Serve calls
// one of ours.
func (s *Set) Foreign(m manifests.Skill, argv []string) func(context.Context, skill.Env, skill.IO) int {
	return func(ctx context.Context, env skill.Env, streams skill.IO) int {
		return foreign.Call(ctx, &s.reaper, m, argv, env, streams)
	}
}

// CheckAdapter returns the problems of an adapter for agent.run; see adapter.Check.
func CheckAdapter(name string, raw []byte) (problems []manifests.Problem) {
	for _, p := range adapter.Check(name, raw) {
		problems = append(problems, manifests.Problem(p))
	}
	return problems
}

// Served returns a third-party skill that the program argv implements.
func Served(argv []string) skill.Func { return served.Func(new(proc.Reaper), argv) }

// ScrubAgents overwrites values in the homes of agents; see agent.ScrubHomes.
func ScrubAgents(workspace, state string, values []string) error {
	return agent.ScrubHomes(workspace, state, values)
}
