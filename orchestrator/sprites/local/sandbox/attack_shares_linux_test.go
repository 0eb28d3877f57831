package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// This file has the attacks on what the kernel has once for all: who takes it all takes it from the host, too.

func shareActors() map[string]func([]string) error {
	return map[string]func([]string) error{
		"terminals":   takeTerminals,
		"watchers":    takeWatchers,
		"empty-files": makeEmptyFiles,
		"under-way":   keepUnderWay,
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

// keepUnderWay has descriptors on their way in a socket, as many as the first argument says, until its input ends.
func keepUnderWay(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return brokenActor{err}
	}
	if err := unix.Sendmsg(ends[0], []byte("x"), unix.UnixRights(slices.Repeat([]int{0}, n)...), nil, 0); err != nil {
		return err
	}
	fmt.Println("under way")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestDescriptorsUnderWay has more descriptors on their way than init may have, as a hostile sprite could bring about for
// another one. What needs none goes on, the rest is told, and afterwards all is well.
func TestDescriptorsUnderWay(t *testing.T) {
	s := newScene(t, "")
	must(t, os.WriteFile(filepath.Join(s.cfg.Root.Dir, "note"), []byte("well"), 0o644))
	box := launch(t, s.cfg)
	if box.Translated() {
		t.Skip("no namespaces here")
	}
	in, hold, err := os.Pipe()
	must(t, err)
	out, told, err := os.Pipe()
	must(t, err)
	defer in.Close()
	defer out.Close()
	proc, err := box.Exec(sandbox.Process{Argv: []string{"/skills/attacker", attackArg, "under-way", "200"}, Stdin: in, Stdout: told, Stderr: told})
	told.Close()
	must(t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "under way\n" {
		t.Fatalf("the attacker says %q, %v", line, err)
	}
	pid := findInit(t)
	limits, _ := run(t, box, fmt.Sprintf("cat /proc/%d/limits", proc.PID))
	if want := fmt.Sprint(hardLimit(t) / 2); !strings.Contains(limits, want) {
		t.Errorf("a command's limits, without %s descriptors:\n%s", want, limits)
	}
	var before unix.Rlimit
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before))
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: before.Max}, nil))
	terminal := sandbox.Process{Argv: []string{"/bin/sleep", "1000"}, TTY: true, Rows: 24, Cols: 80}
	if _, _, err := box.Files().Open(t.Context(), "/note"); !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("Open = %v", err)
	}
	var failed *sandbox.StartError
	if _, err := box.Exec(terminal); !errors.As(err, &failed) {
		t.Errorf("a terminal: %v", err)
	}
	if text, code := run(t, box, "echo well"); text != "well" || code != 0 {
		t.Errorf("a command: %q, %d", text, code)
	}
	hold.Close()
	_, err = proc.Wait()
	must(t, err)
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil))
	file, _, err := box.Files().Open(t.Context(), "/note")
	must(t, err)
	file.Close()
	again, err := box.Exec(terminal)
	must(t, err)
	again.PTY.Close()
}

func hardLimit(t *testing.T) uint64 {
	t.Helper()
	var own unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	return own.Max
}
