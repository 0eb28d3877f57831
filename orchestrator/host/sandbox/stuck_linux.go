package sandbox

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
)

// freeStart kills the child of init that is about to execute a command, if a process has stopped it: init waits for the exec,
// and does little else until then. A process of the sprite that guesses the child's number can send it SIGSTOP, which cannot
// be blocked. The child is recognised by its arguments, which are still those of init; a command that imitates them harms
// only its own sprite.
func freeStart(init int) (killed bool) {
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", init))
	if err != nil || !bytes.HasPrefix(own, []byte("sprite-init\x00")) {
		return false // it has ended, and its number is perhaps a stranger's
	}
	children, _ := childrenOf(init) // after an error, the next call finds them
	for _, pid := range children {
		child, err := os.FindProcess(pid) // whose number cannot be another's from here on
		if err != nil {
			continue
		}
		if how, err := procfs.Stands(pid, pid); err == nil && how.State == 'T' {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			killed = bytes.Equal(args, own) && child.Kill() == nil || killed
		}
		child.Release() // nothing is left to fail
	}
	return killed
}
