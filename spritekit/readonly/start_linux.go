package readonly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights to change files, by the version of Landlock that knows them.
const (
	changeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	changeDir  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// Start calls start on a thread that can change only the writable paths and all below them. A process that start makes inherits that. It
// leaves out paths that do not exist, and those that the caller cannot look at.
func Start(writable []string, start func() error) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < 1 {
		return ErrUnavailable
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // it stays locked: the thread ends with the goroutine
		err := restrictThread(int(version), writable)
		if err == nil {
			err = start()
		}
		done <- err
	}()
	return <-done
}

// restrictThread restricts this thread.
func restrictThread(version int, writable []string) error {
	file, dir := uint64(changeFile), uint64(changeFile|changeDir)
	if version >= 2 {
		dir |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		file, dir = file|unix.LANDLOCK_ACCESS_FS_TRUNCATE, dir|unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	handled := struct{ fs uint64 }{dir} // older kernels refuse a longer one
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(ruleset))
	for _, path := range writable {
		if err := addRule(int(ruleset), path, file, dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("allow changes of %s: %w", path, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("restrict by Landlock: %w", errno)
	}
	return nil
}

// addRule adds the rights over a path to a ruleset.
func addRule(ruleset int, path string, file, dir uint64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		dir = file
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: dir, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
