package guest

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoreReserved makes init survive the signals 32 to 34, which Go's runtime leaves to C libraries and [signal.Notify] does
// not catch. The kernel drops signals without a handler for the first process of a namespace, but not always: one that arrives
// while Go's first thread blocks signals, as around each fork, would end the box. Commands inherit the ignored signals; the C
// libraries that use them set their own handlers.
func ignoreReserved() error {
	var action [4]uint64 // the kernel's struct sigaction: handler, flags, restorer, mask
	action[0] = 1        // SIG_IGN
	for sig := uintptr(32); sig <= 34; sig++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action[3]), 0, 0)
		if errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", sig, errno)
		}
	}
	return nil
}
