package caller

import (
	"net"
	"syscall"
)

// peerIDs returns the user id and the process id of the process that connected a unix socket.
func peerIDs(conn net.Conn) (uid, pid int, ok bool) {
	unix, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return 0, 0, false
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid, pid, ok = int(cred.Uid), int(cred.Pid), true
		}
	})
	return uid, pid, ok && err == nil
}
