package home

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestHomeProblems(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]struct {
		code string
		exit int
	}{
		syscall.ENOTDIR: {"home_not_directory", protocol.ExitBadInput}, syscall.ENAMETOOLONG: {"home_too_long", protocol.ExitBadInput},
		syscall.EROFS: {"home_read_only", protocol.ExitDenied}, syscall.EACCES: {"home_unwritable", protocol.ExitDenied},
		syscall.EPERM: {"home_unwritable", protocol.ExitDenied}, syscall.ENOSPC: {"disk_full", protocol.ExitLimit},
		syscall.EDQUOT: {"disk_full", protocol.ExitLimit}, syscall.ENOENT: {"home_missing", protocol.ExitNotFound},
	} {
		err := homeProblem("make state directory", fmt.Errorf("mkdir: %w", &os.PathError{Op: "mkdir", Path: "/x", Err: errno}))
		var p *fault.Error
		if !errors.As(err, &p) || p.Fault.Code != want.code || p.Exit != want.exit || p.Fault.Hint == "" {
			t.Errorf("%v = %+v, want %s, exit %d and a hint", errno, err, want.code, want.exit)
		}
	}
	if err := homeProblem("look", syscall.EIO); !errors.Is(err, syscall.EIO) {
		t.Errorf("another error is %v", err)
	}
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if describeUnfit(info, os.Getuid()) != "" || describeUnfit(info, os.Getuid()+1) == "" {
		t.Error("a directory is judged by its owner")
	}
	if err := Home("").prepare(); err == nil {
		t.Error("no directory is one")
	}
}
