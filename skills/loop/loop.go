// Package loop holds the skills of the flow loop: loop.begin prepares the files and the prompt of an iteration, loop.read reads
// the answer of the agent, and loop.decide decides how the loop goes on. Skills is the list. The rules are in package
// spritekit/loop; this package moves them between inputs and files.
//
// An agent can write all files here, so each is bounded and validated when it is read. None extends a limit: limits and memory
// are inputs, which lattice keeps.
package loop

import (
	"github.com/spritekit/lattice/spritekit/skill"
)

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{
		{Name: "loop.begin", Run: skill.Typed(beginIteration)},
		{Name: "loop.decide", Run: skill.Typed(decideNext)},
		{Name: "loop.read", Run: skill.Typed(readAnswer)},
	}
}
