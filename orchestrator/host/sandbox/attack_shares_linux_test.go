package sandbox_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/guest"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// This file has the attacks on what the kernel has once for all: who takes it all takes it from the host, too.

func shareActors() map[string]func([]string) error {
	return map[string]func([]string) error{
		"terminals":   takeTerminals,
		"watchers":    takeWatchers,
		"all-watches": keepWatchers,
		"empty-files": makeEmptyFiles,
		"under-way":   keepUnderWay,
		"stop-others": stopOthers,
		"all-entries": keepEntries,
	}
}

func shareAttacks() []attack {
	shares := []spec.Defence{spec.DefenceShares}
	return []attack{
		{name: "take the kernel's terminals", actor: "terminals", args: []string{"600"}, layers: shares},
		{name: "take the host's file watchers (inotify)", actor: "watchers", args: []string{"64"}, layers: shares},
		{name: "fill /dev/shm with empty files", actor: "empty-files", args: []string{"/dev/shm", "4000"}, limits: spec.Limits{TmpBytes: 8 << 20}, layers: []spec.Defence{spec.DefenceTmpSize}},
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

// keepWatchers takes all watchers that there are for its box, until its input ends.
func keepWatchers([]string) error {
	for {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); errors.Is(err, unix.EMFILE) {
			break
		} else if err != nil {
			return brokenActor{err}
		}
	}
	fmt.Println("taken")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Who takes all watchers, as several boxes together can, keeps nobody from being told of changes.
func TestWatchWithoutWatchers(t *testing.T) {
	s := newScene(t, "")
	box := launch(t, s.cfg)
	if box.Config().Plain() {
		t.Skip("no namespaces here")
	}
	in, hold, err := os.Pipe()
	must(t, err)
	out, told, err := os.Pipe()
	must(t, err)
	defer out.Close()
	proc, err := box.Exec(spec.Process{Argv: []string{"/skills/attacker", attackArg, "all-watches", ""}, Stdin: in, Stdout: told, Stderr: told})
	must(t, err)
	in.Close()
	told.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
		t.Fatalf("the attacker says %q, %v", line, err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	ended := make(chan error, 1)
	go func() {
		ended <- box.Files().Watch(t.Context(), theirs)
		theirs.Close()
	}()
	must(t, json.NewEncoder(ours).Encode(files.Subscription{Paths: [][]byte{[]byte("/workspace")}, Recursive: true}))
	var e files.Event
	events := json.NewDecoder(ours)
	must(t, events.Decode(&e))
	if e.Type != files.Subscribed {
		t.Fatalf("told %+v", e)
	}
	run(t, box, "echo x >/workspace/new")
	must(t, events.Decode(&e))
	if string(e.Path) != "/workspace/new" || e.Event != "create" {
		t.Errorf("told %+v", e)
	}
	ours.Close()
	must(t, <-ended)
	hold.Close()
	_, err = proc.Wait()
	must(t, err)
}

// keepEntries takes all epoll entries that there are for its user, until its input ends.
func keepEntries([]string) error {
	var watched []int
	for range 500 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return brokenActor{err}
		}
		watched = append(watched, fd)
	}
	for {
		list, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		for i := 0; err == nil && i < len(watched); i++ {
			err = unix.EpollCtl(list, unix.EPOLL_CTL_ADD, watched[i], &unix.EpollEvent{})
		}
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			return brokenActor{err}
		}
	}
	fmt.Println("taken")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// One box takes all epoll entries that the kernel has for its user. With ids of its own another one, whose init needs some,
// starts and works all the same; without them it does not.
func TestEpollEntries(t *testing.T) {
	const knob = "/proc/sys/fs/epoll/max_user_watches"
	most, err := os.ReadFile(knob)
	must(t, err)
	if err := os.WriteFile(knob, []byte("100000"), 0); err != nil {
		t.Skip("only root may try: ", err)
	}
	t.Cleanup(func() { must(t, os.WriteFile(knob, most, 0)) })
	for _, own := range []bool{true, false} {
		s := newScene(t, "")
		if s.cfg.OwnIDs = own && s.cfg.OwnIDs; s.cfg.OwnIDs != own {
			t.Error("boxes have no ids of their own here")
			continue
		}
		box := launch(t, s.cfg)
		in, hold, err := os.Pipe()
		must(t, err)
		out, told, err := os.Pipe()
		must(t, err)
		proc, err := box.Exec(spec.Process{Argv: []string{"/skills/attacker", attackArg, "all-entries", ""}, Stdin: in, Stdout: told, Stderr: told})
		must(t, err)
		in.Close()
		told.Close()
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
			t.Fatalf("the attacker says %q, %v", line, err)
		}
		out.Close()
		other := newScene(t, "")
		other.cfg.OwnIDs = own
		another, err := sandbox.Start(other.cfg)
		if err == nil && own {
			if text, code := run(t, another, "echo well"); text != "well" || code != 0 {
				t.Errorf("a command in the other box: %q, %d", text, code)
			}
		}
		if err == nil {
			must(t, another.Stop())
		}
		if own && err != nil || !own && !spec.Short(err) {
			t.Errorf("with own ids %t the other box starts with: %v", own, err)
		}
		hold.Close()
		if _, err := proc.Wait(); err != nil {
			t.Error(err)
		}
	}
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

// keepUnderWay has as many descriptors on their way in sockets as the kernel lets it have, until its input ends.
func keepUnderWay([]string) error {
	for {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return brokenActor{err}
		}
		for err == nil {
			err = unix.Sendmsg(ends[0], []byte("x"), unix.UnixRights(slices.Repeat([]int{0}, 250)...), nil, 0)
		}
		if errors.Is(err, unix.ETOOMANYREFS) {
			break
		}
		if !errors.Is(err, unix.EAGAIN) { // the socket is full
			return brokenActor{err}
		}
	}
	fmt.Println("under way")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// stopOthers stops every other process of its box, again and again, those that init is about to make commands of among them.
func stopOthers([]string) error {
	fmt.Println("at work")
	for {
		unix.Kill(-1, unix.SIGSTOP) // there may be nobody
	}
}

// A command whose start is held up by a process of the sprite fails by itself. What else is asked of the box goes on.
func TestHeldUpStarts(t *testing.T) {
	s := newScene(t, "")
	must(t, os.WriteFile(filepath.Join(s.cfg.Root.Dir, "note"), []byte("well"), 0o644))
	box := launch(t, s.cfg)
	if box.Config().Plain() {
		t.Skip("no namespaces here")
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	stopper, err := box.Exec(spec.Process{Argv: []string{"/skills/attacker", attackArg, "stop-others", ""}, Stdout: w, Stderr: w})
	w.Close()
	must(t, err)
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "at work\n" {
		t.Fatalf("the attacker says %q, %v", line, err)
	}
	held := 0
	until(t, func() bool {
		proc, err := box.Exec(spec.Process{Argv: []string{"/bin/true"}})
		var failed *spec.StartError
		switch {
		case errors.As(err, &failed) && strings.Contains(failed.Text, "stopped it before"):
			held++
		case err != nil:
			t.Fatal(err)
		default:
			must(t, proc.Signal("KILL"))
		}
		file, _, err := box.Files().Open(t.Context(), "/note")
		must(t, err)
		file.Close()
		return held == 3
	})
	must(t, stopper.Signal("KILL"))
	_, err = stopper.Wait()
	must(t, err)
	if text, code := run(t, box, "echo well"); text != "well" || code != 0 {
		t.Errorf("a command afterwards: %q, %d", text, code)
	}
}

// flooded starts a box beside another one that keeps as many descriptors on their way as it can. Both are without some
// defences. A host that is root lowers the numbers first: those are counted for the boxes of all its hosts.
func flooded(t *testing.T, without ...spec.Defence) (box *sandbox.Box, end func()) {
	t.Helper()
	var boxes [2]*sandbox.Box
	for i := range boxes {
		s := newScene(t, "")
		s.cfg.Without = without
		must(t, os.WriteFile(filepath.Join(s.cfg.Root.Dir, "note"), []byte("well"), 0o644))
		boxes[i] = launch(t, s.cfg)
	}
	if boxes[0].Config().Plain() {
		t.Skip("no namespaces here")
	}
	if os.Getuid() == 0 {
		for _, pid := range inits(t) {
			must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}, nil))
		}
	}
	in, hold, err := os.Pipe()
	must(t, err)
	out, told, err := os.Pipe()
	must(t, err)
	proc, err := boxes[0].Exec(spec.Process{Argv: []string{"/skills/attacker", attackArg, "under-way", "all"}, Stdin: in, Stdout: told, Stderr: told})
	must(t, err)
	told.Close()
	in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "under way\n" {
		t.Fatalf("the attacker says %q, %v", line, err)
	}
	return boxes[1], func() {
		hold.Close()
		out.Close()
		_, err := proc.Wait()
		must(t, err)
	}
}

// Of the descriptors on their way in sockets the kernel lets one user have so many. What one box does with them must not
// keep another one from handing files and terminals to the host; without the defence it does.
func TestDescriptorsUnderWay(t *testing.T) {
	for _, without := range [][]spec.Defence{{}, {spec.DefenceOwnIDs}} {
		testFlooded(t, without...)
	}
	box, end := flooded(t, spec.DefenceShares, spec.DefenceOwnIDs)
	defer end()
	if _, _, err := box.Files().Open(t.Context(), "/note"); !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("without the defence Open = %v, so that this proves nothing", err)
	}
	if _, err := box.Exec(sleeperOnTerminal); !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("without the defence a terminal = %v, so that this proves nothing", err)
	}
}

func testFlooded(t *testing.T, without ...spec.Defence) {
	box, end := flooded(t, without...)
	defer end()
	for range 20 {
		file, size, err := box.Files().Open(t.Context(), "/note")
		if err != nil || size != 4 {
			t.Fatalf("Open = %d, %v", size, err)
		}
		file.Close()
		proc, err := box.Exec(sleeperOnTerminal)
		if err != nil {
			t.Fatalf("a terminal: %v", err)
		}
		must(t, proc.Resize(30, 100))
		proc.PTY.Close() // which hangs up: init has let go of it
		if code, err := proc.Wait(); code != 129 || err != nil {
			t.Fatalf("a command that was hung up ends with %d, %v", code, err)
		}
		if text, code := run(t, box, "echo well"); text != "well" || code != 0 {
			t.Fatalf("a command: %q, %d", text, code)
		}
	}
	s := newScene(t, "")
	s.cfg.Network, s.cfg.Without = true, without
	if another, err := sandbox.Start(s.cfg); err != nil {
		t.Errorf("a box that is started meanwhile: %v", err)
	} else {
		must(t, another.Stop())
	}
}

var sleeperOnTerminal = spec.Process{Argv: []string{"/bin/sleep", "1000"}, TTY: true, Rows: 24, Cols: 80}

// What a command may have open it may have from its first instruction on: half of what the host may at most, and no more than
// leaves files to others when each of the box's processes has as many.
func TestDescriptorsOfCommands(t *testing.T) {
	box, _ := start(t, false)
	var own unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	most := guest.MostFiles(own.Max, 4096)
	if most > own.Max/2 {
		t.Errorf("boxes have %d of the %d descriptors that the host may have", most, own.Max)
	}
	for _, pid := range inits(t) {
		var its unix.Rlimit
		must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &its))
		if its.Max != most {
			t.Errorf("init may have %d descriptors, want %d: commands begin with as many", its.Max, most)
		}
	}
	outside, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	must(t, err)
	soft, err := strconv.ParseUint(strings.TrimSpace(string(outside)), 10, 64)
	must(t, err)
	if got, _ := run(t, box, "ulimit -Sn; ulimit -Hn"); got != fmt.Sprintf("%d\n%d", min(soft, most), most) {
		t.Errorf("a command's limits are %q, outside they are %d and %d", got, soft, own.Max)
	}
}
