// Command lattice composes skills into flows, runs them in sprites, pauses for people and acts for sprites outside.
//
// The actors, and who speaks to whom:
//
//	command ──HTTP over lattice.sock──▶ leader ──▶ engine.Runner ──▶ session ──Sprites API──▶ embedded host │ remote
//	                                      │             │                                          │
//	                                      └── store ◀───┘ facts before effects                     └─▶ /skills/… in a sprite
//
// main reads flags and environment and hands values down; nothing below it does. One file per command (cmd_*.go);
// leader.go decides whether this process leads or asks the one that does.
package main

import (
	"os"

	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // a box's init gets no further
)

func main() {
	d := processDeps()
	ctx, stop := d.untilSignal()
	code := execute(ctx, d, os.Args[1:])
	stop()
	os.Exit(code)
}
