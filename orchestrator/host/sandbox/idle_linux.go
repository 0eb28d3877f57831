package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Idle reports whether only init and its keeper run in the box, so that no process can be writing to its files. Processes that
// a command left behind are children of init. Idle is false for a plain box, and where this cannot be determined. The caller
// must keep out new commands.
func (p Processes) Idle() bool {
	if p.plain {
		return false
	}
	children, ok := childrenOf(p.init)
	if !ok {
		return false
	}
	for _, child := range children {
		if child != p.keeper.pid || startOf(child) != p.keeper.began {
			return false
		}
		if below, ok := childrenOf(child); !ok || len(below) > 0 {
			return false
		}
	}
	return true
}

// childrenOf lists the child processes of all threads of a process; ok is false where that cannot be told.
func childrenOf(pid int) (children []int, ok bool) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(threads) == 0 {
		return nil, false
	}
	for _, path := range threads {
		list, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil, false
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, false
			}
			children = append(children, child)
		}
	}
	return children, true
}

// startOf returns when a process began, "" of one that has ended.
func startOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // state is the first
	const start = 19
	if len(fields) <= start {
		return ""
	}
	return string(fields[start])
}

// findKeeper returns the keeper of a box whose first command is still to start.
func findKeeper(init int) keeper {
	children, _ := childrenOf(init)
	if len(children) != 1 {
		return keeper{}
	}
	return keeper{children[0], startOf(children[0])}
}
