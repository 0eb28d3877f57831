package guest

import (
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// Rights over files, by the operations that they allow.
const (
	readFiles  = ll.AccessFSExecute | ll.AccessFSReadFile
	firstKnown = ll.AccessFSRefer - 1 // all that the first version knows
	changeAll  = firstKnown | ll.AccessFSRefer | ll.AccessFSTruncate
)

// fenceThread restricts this thread and its descendants further by Landlock: they cannot mount, use a device outside of /dev, or
// reach out of the box by a signal or an abstract socket. A kernel without Landlock, or with an older version, applies the
// rules that it knows, but not its first version, which would forbid moves between folders. Landlock cannot make single folders
// read-only: sprites make folders in /, and a right to a folder is one to all below it.
//
// It must come before the second stage: each thread that is restricted gets a domain of its own, and domains keep from one
// another, so that init could not even signal its commands. Of this process only the calling thread lives on.
func fenceThread() error {
	abi := spec.LandlockABI()
	if abi < 2 {
		return nil
	}
	known := ll.RulesetAttr{HandledAccessFS: firstKnown | ll.AccessFSRefer} // the network has its own walls
	if abi >= 3 {
		known.HandledAccessFS |= ll.AccessFSTruncate
	}
	if abi >= 5 {
		known.HandledAccessFS |= ll.AccessFSIoctlDev
	}
	if abi >= 6 {
		known.Scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	ruleset, err := ll.LandlockCreateRuleset(&known, 0)
	if err != nil {
		return spec.FailedAt("restrict by Landlock", fmt.Errorf("landlock_create_ruleset: %w", err))
	}
	defer unix.Close(ruleset)
	allowed := map[string]uint64{
		"/":              changeAll,
		"/proc/self/exe": readFiles, // the second stage, which lies outside
		"/dev":           changeAll | ll.AccessFSIoctlDev,
	}
	for path, rights := range allowed {
		if err := allowPath(ruleset, path, rights&known.HandledAccessFS); err != nil {
			return spec.FailedAt("restrict by Landlock", fmt.Errorf("allow %s: %w", path, err))
		}
	}
	if err := ll.LandlockRestrictSelf(ruleset, 0); err != nil {
		return spec.FailedAt("restrict by Landlock", fmt.Errorf("landlock_restrict_self: %w", err))
	}
	return nil
}

// allowPath adds rights over path, and all below it, to a ruleset.
func allowPath(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}
