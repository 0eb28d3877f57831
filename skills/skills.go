// Package skills is the one list of the skills that spritekit brings along. Each family is a package of one shape: a
// file per verb, and a function Skills that names its members; the manifests lie in package manifests under the same
// names. To add a skill: write its manifest, its file, and its line in the family's list.
package skills

import (
	"cmp"
	"slices"

	"github.com/spritekit/lattice/skills/agent"
	"github.com/spritekit/lattice/skills/fs"
	"github.com/spritekit/lattice/skills/git"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/served"
	"github.com/spritekit/lattice/skills/test"
	"github.com/spritekit/lattice/spritekit/skill"
)

// All lists the built-in skills, sorted by name. A process calls it once: the skills share what owns their processes.
func All() []skill.Skill {
	reaper := new(proc.Reaper)
	all := slices.Concat(
		agent.Skills(reaper, git.Watch(reaper)),
		fs.Skills(),
		git.Skills(reaper),
		test.Skills(reaper),
	)
	slices.SortFunc(all, func(a, b skill.Skill) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Served is a skill of somebody else, done by the program argv.
func Served(argv []string) skill.Func { return served.Func(new(proc.Reaper), argv) }
