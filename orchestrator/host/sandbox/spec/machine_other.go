//go:build !linux

package spec

import (
	"os"
)

func CountsPerNamespace() bool { return false }

func PidsPerNamespace() bool { return false }

// MachineMemory is not asked for here: nothing could keep a limit of it.
func MachineMemory() int64 { return 0 }

// Systems without namespaces have plain boxes only.

// Owner is the user who runs the host process: there is no other to be had here.
func Owner() (uid, gid int) { return os.Getuid(), os.Getgid() }

// LandlockABI is 0: other systems have none.
func LandlockABI() int { return 0 }
