// Command lattice composes skills into flows, runs them in sprites, pauses for people and acts for sprites outside.
//
// The actors, and their connections:
//
//	command ──HTTP over lattice.sock──▶ leader ──▶ engine.Runner ──▶ session ──Sprites API──▶ embedded host │ remote
//	                                      │             │                                          │
//	                                      └── store ◀───┘ facts before effects                     └─▶ /skills/… in a sprite
//
// main reads flags and environment and hands values down; nothing below it does. The commands are in packages below command,
// one for each group; package connect decides whether this process leads or asks the one that does.
package main

import "github.com/spritekit/lattice/orchestrator/program"

func main() { program.Main(program.NewEnv()) }
