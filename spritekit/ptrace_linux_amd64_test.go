package main

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// syscalls runs a command to its end and counts its system calls by number, those of all its threads. The command must
// use files, not pipes: nobody reads while it is traced.
func syscalls(t *testing.T, cmd *exec.Cmd) map[uint64]int {
	t.Helper()
	const (
		exitKill = 0x100000 // PTRACE_O_EXITKILL: nothing outlives the test
		inCall   = syscall.SIGTRAP | 0x80
	)
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		t.Skipf("this machine forbids ptrace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	wait := func(who int) int {
		for {
			got, err := syscall.Wait4(who, &status, syscall.WALL, nil)
			if err == nil {
				return got
			}
			if err != syscall.EINTR {
				t.Fatalf("wait for the traced process: %v", err)
			}
		}
	}
	wait(pid) // the stop of exec
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE|exitKill); err != nil {
		t.Fatal(err)
	}
	counts, inside := map[uint64]int{}, map[int]bool{}
	for thread, signal := pid, 0; ; thread = wait(-pid) {
		switch {
		case status.Exited() || status.Signaled():
			if thread != pid {
				continue
			}
			if status.ExitStatus() != 0 {
				t.Fatalf("%v ended with %d", cmd.Args, status.ExitStatus())
			}
			return counts
		case status.StopSignal() == inCall:
			if inside[thread] = !inside[thread]; inside[thread] {
				var regs syscall.PtraceRegs
				if err := syscall.PtraceGetRegs(thread, &regs); err == nil {
					counts[regs.Orig_rax]++
				}
			}
			signal = 0
		case status.StopSignal() == syscall.SIGTRAP, status.StopSignal() == syscall.SIGSTOP: // of tracing itself
			signal = 0
		default:
			signal = int(status.StopSignal())
		}
		if err := syscall.PtraceSyscall(thread, signal); err != nil && err != syscall.ESRCH { // killed meanwhile
			t.Fatal(err)
		}
	}
}
