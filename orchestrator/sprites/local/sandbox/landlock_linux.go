package sandbox

import (
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// LandlockABI is the version of Landlock that this kernel has, 0 for none. Boxes do without; it is one fence of several.
func LandlockABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// fenceFiles restricts this thread, and all that comes of it, once more: nothing is written below what is sealed, nothing is
// mounted, no signal and no abstract socket reaches out of the box. A kernel without Landlock, or with less of it, does what
// it can. Sealed are names of folders in the root.
//
// It must come before the second stage: each thread that is restricted gets a domain of its own, and domains keep from one
// another, so that init could not even signal its commands.
func fenceFiles(sealed []string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return &setupFailure{"list the root for Landlock", err}
	}
	var writable []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "dev" && !slices.Contains(sealed, e.Name()) {
			writable = append(writable, "/"+e.Name())
		}
	}
	fence := landlock.V6
	fence.HandledAccessNet = 0 // the network has its own walls
	err = fence.BestEffort().Restrict(
		landlock.RODirs("/"),
		landlock.ROFiles("/proc/self/exe"), // the second stage, which lies outside
		landlock.RWDirs(writable...).WithRefer(),
		landlock.RWDirs("/dev").WithRefer().WithIoctlDev(),
	)
	if err != nil {
		return &setupFailure{"restrict by Landlock", err}
	}
	return nil
}
