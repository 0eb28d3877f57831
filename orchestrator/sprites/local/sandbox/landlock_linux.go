package sandbox

import (
	"fmt"
	"os"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// LandlockABI is the version of Landlock that this kernel has, 0 for none. Boxes do without; it is one fence of several.
func LandlockABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// Rights over files, by what they allow.
const (
	readFiles  = ll.AccessFSExecute | ll.AccessFSReadFile
	readAll    = readFiles | ll.AccessFSReadDir
	firstKnown = ll.AccessFSRefer - 1 // all that the first version knows
	changeAll  = firstKnown | ll.AccessFSRefer | ll.AccessFSTruncate
)

// fenceFiles restricts this thread, and all that comes of it, once more: nothing is written below what is sealed, nothing is
// mounted, no signal and no abstract socket reaches out of the box. A kernel without Landlock, or with less of it, does what
// it can; the first version would forbid to move files between folders. Sealed are names of folders in the root.
//
// It must come before the second stage: each thread that is restricted gets a domain of its own, and domains keep from one
// another, so that init could not even signal its commands. Of this process only the calling thread lives on.
func fenceFiles(sealed []string) error {
	abi := LandlockABI()
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
	fence, err := ll.LandlockCreateRuleset(&known, 0)
	if err != nil {
		return &setupFailure{"restrict by Landlock", fmt.Errorf("landlock_create_ruleset: %w", err)}
	}
	defer unix.Close(fence)
	entries, err := os.ReadDir("/")
	if err != nil {
		return &setupFailure{"list the root for Landlock", err}
	}
	allowed := map[string]uint64{
		"/":              readAll,
		"/proc/self/exe": readFiles, // the second stage, which lies outside
		"/dev":           changeAll | ll.AccessFSIoctlDev,
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "dev" && !slices.Contains(sealed, e.Name()) {
			allowed["/"+e.Name()] = changeAll
		}
	}
	for path, rights := range allowed {
		if err := allow(fence, path, rights&known.HandledAccessFS); err != nil {
			return &setupFailure{"restrict by Landlock", fmt.Errorf("allow %s: %w", path, err)}
		}
	}
	if err := ll.LandlockRestrictSelf(fence, 0); err != nil {
		return &setupFailure{"restrict by Landlock", fmt.Errorf("landlock_restrict_self: %w", err)}
	}
	return nil
}

// allow adds rights over path, and all below it, to a fence.
func allow(fence int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockAddPathBeneathRule(fence, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}
