package main

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// traced is what a process asked of the kernel, in all its threads.
type traced struct {
	calls map[uint64]int // by number
	read  int64          // bytes, from whatever
	exit  int
}

// trace runs a command to its end. It must use files, not pipes: nobody reads while it is traced.
func trace(t *testing.T, cmd *exec.Cmd) traced {
	t.Helper()
	return traceUntil(t, cmd, func(int, syscall.PtraceRegs) bool { return false })
}

// traceUntil is trace that kills the process before the first system call for which kill is true; its exit is then -1.
// kill is called with the thread, which stands still, and its registers as it enters each system call.
func traceUntil(t *testing.T, cmd *exec.Cmd, kill func(thread int, regs syscall.PtraceRegs) bool) traced {
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
	result, inside := traced{calls: map[uint64]int{}}, map[int]bool{}
	for thread, signal := pid, 0; ; thread = wait(-pid) {
		switch {
		case status.Exited() || status.Signaled():
			if thread != pid {
				continue
			}
			result.exit = status.ExitStatus()
			return result
		case status.StopSignal() == inCall:
			var regs syscall.PtraceRegs
			known := syscall.PtraceGetRegs(thread, &regs) == nil // else it was killed meanwhile
			inside[thread] = !inside[thread]
			switch {
			case known && inside[thread]:
				result.calls[regs.Orig_rax]++
				if kill(thread, regs) {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			case known && (regs.Orig_rax == syscall.SYS_READ || regs.Orig_rax == syscall.SYS_PREAD64):
				result.read += max(0, int64(regs.Rax))
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
