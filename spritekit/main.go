// Command spritekit is the runtime inside a sprite: a static binary that is every built-in skill. Called by the name of a
// skill (/skills/git.clone is a link to it) or as "spritekit git.clone" it runs that skill; its other commands list the
// skills, emit events, take checkpoints, read the resume payload and install the binary into a folder. Code with large and
// rarely needed dependencies is in a second binary next to it, spritekit-extra, which it runs: git for images without git, the
// server of MCP, and JSON schemas for the answers of agents.
//
//	argv[0], args ─► command table (commands.go) ─► skill.Serve ─► exit code
//
// This package alone reads the environment and the arguments; everything below gets values.
package main

import (
	"os"

	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/spritekit/skill"
)

func main() {
	a := app{
		skills: skills.All(), env: skill.ParseEnv(os.Environ()), environ: os.Environ(),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
	}
	os.Exit(a.runMain(os.Args))
}
