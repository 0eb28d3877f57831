//go:build !linux

package caller

import "net"

// peerIDs are not known here.
func peerIDs(net.Conn) (uid, pid int, ok bool) { return 0, 0, false }
