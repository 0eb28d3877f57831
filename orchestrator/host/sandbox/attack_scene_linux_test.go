package sandbox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// This file lays out what attacks are aimed at, and sees from the host whether they hit it.

// giveSkills makes the skills' folder the box's own, so that nothing but the box keeps it from writing there.
func giveSkills(t *testing.T, s *scene) {
	s.cfg.OwnIDs = false // so that it is not their owner that keeps them
	uid, gid := s.cfg.Owner()
	for _, name := range []string{"", "hello"} {
		must(t, os.Lchown(filepath.Join(s.cfg.Skills, name), uid, gid))
	}
}

// skillsChanged is true when the host's folder of skills holds what the box wrote.
func skillsChanged(t *testing.T, s *scene) bool {
	_, err := os.Stat(filepath.Join(s.cfg.Skills, "evil"))
	hello, readErr := os.ReadFile(filepath.Join(s.cfg.Skills, "hello"))
	must(t, readErr)
	return err == nil || !bytes.HasPrefix(hello, []byte("#!/bin/sh"))
}

// privateSelf gives the box an init of its own to spoil.
func privateSelf(t *testing.T, s *scene) {
	self, err := os.ReadFile(s.cfg.Self)
	must(t, err)
	s.cfg.Self = filepath.Join(s.dir, "lattice")
	must(t, os.WriteFile(s.cfg.Self, self, 0o755))
}

func selfChanged(t *testing.T, s *scene) bool {
	st, err := os.Stat(s.cfg.Self)
	must(t, err)
	return st.Mode().Perm() != 0o755
}

// boxEnded asks for one more command: an init that is dead takes none.
func boxEnded(t *testing.T, s *scene) bool {
	proc, err := s.box.Exec(spec.Process{Argv: []string{"/bin/true"}, Dir: "/"})
	if err == nil {
		_, err = proc.Wait()
	}
	if err != nil {
		s.out += " (" + err.Error() + ")"
	}
	return err != nil
}

func nameSecret(t *testing.T, s *scene) { s.args = append(s.args, filepath.Join(s.dir, "secret")) }

// leakDescriptor leaves a file open as careless code does: every program started from now on inherits it.
func leakDescriptor(t *testing.T, s *scene) {
	f, err := os.Create(filepath.Join(s.dir, "leaked"))
	must(t, err)
	_, err = f.WriteString(leakedSecret)
	must(t, err)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
	must(t, err)
	s.open = append(s.open, f)
}

// plantSetuid makes a program that belongs to the box's root, as images have them.
func plantSetuid(t *testing.T, s *scene) {
	uid, _ := s.cfg.Owner()
	root := uid - 1000
	program, err := os.ReadFile(s.cfg.Self)
	must(t, err)
	dir := filepath.Join(s.cfg.Root.Dir, "workspace")
	must(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "suid")
	must(t, os.WriteFile(path, program, 0o755))
	must(t, os.Chown(path, root, root))
	must(t, unix.Chmod(path, 0o4755))
}

// rootOwnsSetuid is true when whoever runs the program that the box made becomes root of the host.
func rootOwnsSetuid(t *testing.T, s *scene) bool {
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(s.cfg.Root.Dir, "workspace", "suid"), &st))
	return st.Uid == 0 && st.Mode&unix.S_ISUID != 0
}

func plantDevice(t *testing.T, s *scene) {
	dir := filepath.Join(s.cfg.Root.Dir, "workspace")
	must(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, "null")
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	must(t, unix.Chmod(path, 0o666))
}

// startVictim runs a process beside the box, as the user whom the box's user is to the host: another sprite, or the user.
func startVictim(t *testing.T, s *scene) {
	s.cfg.OwnIDs = false // so that it is of the same user
	uid, gid := s.cfg.Owner()
	cmd := exec.Command("/bin/cat")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	must(t, cmd.Start())
	s.victim = cmd
	t.Cleanup(func() {
		stdin.Close()
		if cmd.ProcessState == nil {
			cmd.Wait()
		}
	})
	s.args = append(s.args, strconv.Itoa(cmd.Process.Pid), "/bin/cat")
}

// victimKilled looks whether a signal is what ended it, or would be if it were asked to end by itself.
func victimKilled(t *testing.T, s *scene) bool {
	// A signal that was sent is there before the sender goes on; a killed process is a zombie or on its way.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.victim.Process.Pid))
	must(t, err)
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		name, value, _ := strings.Cut(sc.Text(), ":")
		value = strings.TrimSpace(value)
		if name == "State" && strings.HasPrefix(value, "Z") || (name == "ShdPnd" || name == "SigPnd") && strings.Trim(value, "0") != "" {
			return true
		}
	}
	return false
}

func listenAbstract(t *testing.T, s *scene) {
	serveSecret(t, s, "unix", "@lattice-attack-"+strconv.Itoa(os.Getpid()))
}

func listenLoopback(t *testing.T, s *scene) { serveSecret(t, s, "tcp", "127.0.0.1:0") }

// serveSecret tells whoever connects what is told to nobody else.
func serveSecret(t *testing.T, s *scene, network, address string) {
	l, err := net.Listen(network, address)
	must(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte(leakedSecret)) // to nobody is as good
			conn.Close()
		}
	}()
	s.after = append(s.after, func() { l.Close(); <-served })
	s.args = append(s.args, network, l.Addr().String())
}

func shareMemory(t *testing.T, s *scene) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	must(t, err)
	s.after = append(s.after, func() { unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	b, err := unix.SysvShmAttach(id, 0, 0)
	must(t, err)
	copy(b, leakedSecret)
	must(t, unix.SysvShmDetach(b))
	s.args = append(s.args, strconv.Itoa(id))
}

func makeQueue(t *testing.T, s *scene) {
	name := "lattice-attack-" + strconv.Itoa(os.Getpid())
	at, err := unix.BytePtrFromString(name)
	must(t, err)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(at)), unix.O_CREAT|unix.O_RDWR, 0o666, 0, 0, 0)
	if errno != 0 {
		t.Skipf("no message queues here: %v", errno)
	}
	unix.Close(int(fd))
	s.after = append(s.after, func() { unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(at)), 0, 0) })
	s.args = append(s.args, name)
}

// keeps reports whether a limit of the box holds.
func keeps(box *sandbox.Box, limit spec.Defence) bool {
	return slices.ContainsFunc(box.Limits().Enforced(), func(e spec.Enforcement) bool { return e.Limit == limit && e.By != "" })
}

// unthrottled is true when the kernel has not had the box wait for the processor: time on the clock would tell nothing.
func unthrottled(t *testing.T, s *scene) bool {
	for _, dir := range groups(t, os.Getpid()) {
		stat, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		if err != nil {
			continue // a group of another kind
		}
		_, rest, _ := strings.Cut(string(stat), "nr_throttled ")
		if n, _, _ := strings.Cut(rest, "\n"); n != "" && n != "0" {
			s.out += " (throttled " + n + " times)"
			return false
		}
	}
	return true
}
