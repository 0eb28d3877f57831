package guest

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
)

// listPorts matches the listening sockets of the network that init lives in with the processes of the box, by the inodes of
// their descriptors. Sockets of processes that init cannot inspect are left out.
func (s *server) listPorts() ([]channel.Port, error) {
	sockets := map[uint64]channel.Port{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
		err = readListeners(f, sockets)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
	}
	found := map[channel.Port]int{} // process by port and address
	for _, pid := range s.listProcesses() {
		for _, inode := range socketsOf(pid) {
			if p, ok := sockets[inode]; ok && (found[p] == 0 || pid < found[p]) {
				found[p] = pid
			}
		}
	}
	all := make([]channel.Port, 0, len(found))
	for p, pid := range found {
		p.PID = pid
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b channel.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	return all[:min(len(all), channel.MaxPorts)], nil
}

// listProcesses lists the processes of the box besides init: all processes of its pid namespace, or init's descendants where it
// has none.
func (s *server) listProcesses() []int {
	self := os.Getpid()
	if s.plain {
		return procfs.Descendants(self)
	}
	var pids []int
	for _, p := range procfs.Processes() {
		if p.PID != self {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// socketsOf lists the inodes of a process's sockets, none for a process that has gone or hides.
func socketsOf(pid int) (inodes []uint64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		if text, ok := strings.CutPrefix(target, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
				inodes = append(inodes, inode)
			}
		}
	}
	return inodes
}

const stateListen = "0A"

// readListeners reads a table such as /proc/net/tcp and adds its listening sockets by inode.
func readListeners(r io.Reader, to map[uint64]channel.Port) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != stateListen {
			continue
		}
		at, err := tableAddress(f[1])
		inode, bad := strconv.ParseUint(f[9], 10, 64)
		if err != nil || bad != nil {
			return fmt.Errorf("odd line %.200q", lines.Text())
		}
		to[inode] = channel.Port{Port: int(at.Port()), Address: at.Addr().String()}
	}
	return lines.Err()
}

// tableAddress reads an address as the kernel prints it: words of the machine's byte order in hexadecimal digits, and the
// port.
func tableAddress(text string) (at netip.AddrPort, err error) {
	ip, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return at, err
	}
	data, err := hex.DecodeString(ip)
	if err != nil {
		return at, err
	}
	for word := data; len(word) >= 4; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(data)
	if !ok {
		return at, fmt.Errorf("an address of %d bytes", len(data))
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}
