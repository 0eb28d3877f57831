package egress

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// isListening reports whether this process listens on a TCP port of the machine, as the kernel has it.
func isListening(port uint16) bool {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		addListeners(sockets, table, port)
	}
	if len(sockets) == 0 {
		return false
	}
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		return true // a process listens, and it may be this one
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && sockets[to] {
			return true
		}
	}
	return false
}

// addListeners adds the sockets of a table that listen on port, as the links of descriptors name them.
func addListeners(sockets map[string]bool, table string, port uint16) {
	f, err := os.Open(table)
	if err != nil {
		return // no such protocol here
	}
	defer f.Close()
	const listening = "0A"
	end := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
		if field := strings.Fields(lines.Text()); len(field) > 9 && field[3] == listening && strings.HasSuffix(field[1], end) {
			sockets["socket:["+field[9]+"]"] = true
		}
	}
}
