package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// This file has the attacks on what the kernel has once for all: who takes it all takes it from the host, too.

func shareActors() map[string]func([]string) error {
	return map[string]func([]string) error{
		"terminals":   takeTerminals,
		"watchers":    takeWatchers,
		"empty-files": makeEmptyFiles,
	}
}

func shareAttacks() []attack {
	shares := []sandbox.Defence{sandbox.DefenceShares}
	return []attack{
		{name: "take the kernel's terminals", actor: "terminals", args: []string{"600"}, layers: shares},
		{name: "take the host's file watchers (inotify)", actor: "watchers", args: []string{"64"}, layers: shares},
		{name: "fill /dev/shm with empty files", actor: "empty-files", args: []string{"/dev/shm", "4000"}, limits: sandbox.Limits{TmpBytes: 8 << 20}, layers: []sandbox.Defence{sandbox.DefenceTmpSize}},
	}
}

// takeMany opens until there are as many as the first argument says.
func takeMany(args []string, open func() (int, error)) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	for i := range n {
		fd, err := open()
		if err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		defer unix.Close(fd)
	}
	return nil
}

func takeTerminals(args []string) error {
	return takeMany(args, func() (int, error) { return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0) })
}

func takeWatchers(args []string) error {
	return takeMany(args, func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) })
}

// makeEmptyFiles costs memory by the number of files; their size is none.
func makeEmptyFiles(args []string) error {
	dir, err := os.MkdirTemp(args[0], "many")
	if err != nil {
		return brokenActor{err}
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return brokenActor{err}
	}
	for i := range n {
		if err := unix.Mknod(filepath.Join(dir, strconv.Itoa(i)), unix.S_IFREG|0o600, 0); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}
