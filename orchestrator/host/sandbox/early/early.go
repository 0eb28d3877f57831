// Package early makes a process that was started with [spec.InitArg] the init of a box, and one that was started with
// [tree.HelperArg] the helper for files of sub-ids, before the rest of the program is initialised. Main imports it, and has nothing
// more to do.
//
// It is the one exception to the law that nothing runs before main. A box starts the program twice, and then keeps init for
// as long as it lives; what else is linked into it initialises tables of its own, JSON Schema's drafts above all, which took
// half of the processor time of a start and most of the memory of an idle box. Go initialises a package as soon as its
// imports are, in the order of their paths, and main last. So this package imports
// no more than these two need and comes before them.
package early

import (
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/guest"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

var _ = initOfBox()

// initOfBox returns in a process that is none.
func initOfBox() struct{} {
	if len(os.Args) > 1 && os.Args[1] == tree.HelperArg {
		os.Exit(tree.Help(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == spec.InitArg {
		// Packages are initialised by a goroutine that keeps its thread, which init needs only while it sets up.
		status := make(chan int)
		go func() { status <- guest.Main(os.Args[2:], os.Environ()) }()
		os.Exit(<-status)
	}
	return struct{}{}
}
