// Command boxinit is the init of sandboxes, and nothing else. Make builds it into lattice; see package initfile. What
// lattice can do besides, its init would pay for with each start: twice, for each of its stages is an exec.
package main

import (
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/guest"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != spec.InitArg {
		fmt.Fprintln(os.Stderr, "boxinit: this is the inside of a sandbox; lattice starts it")
		os.Exit(2)
	}
	os.Exit(guest.Main(os.Args[2:], os.Environ()))
}
