package proc

import "github.com/spritekit/lattice/spritekit/marked"

// markName is the variable by which the processes of a server are known after its death; see KillMarked.
const markName = "SPRITEKIT_MARK"

// KillMarked kills every process that has mark in the environment it was started with.
func KillMarked(mark string) { marked.Kill(markName, mark) }
