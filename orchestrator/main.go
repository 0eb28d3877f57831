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
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/spritekit/lattice/orchestrator/sprites/local/sandbox/early" // a box's init gets no further
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what cannot be called off, such as reading a backup from a terminal
	code := execute(ctx, processDeps(), os.Args[1:])
	stop()
	os.Exit(code)
}
