package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The start of a process is most of what a small skill costs. Times differ by machine and moment, so the gates are
// counts: what packages do before main, and what the kernel is asked for.

// place makes a workspace with a small file in it and returns how to call a skill there, by its link.
func place(t *testing.T, bin, name, input string, env ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	link, ws := filepath.Join(dir, name), filepath.Join(dir, "ws")
	for _, err := range []error{
		os.Symlink(bin, link), os.Mkdir(ws, 0o755), os.WriteFile(filepath.Join(ws, "a"), []byte("hello\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "in"), []byte(input), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(link)
	cmd.Env = append([]string{"LATTICE_WORKSPACE=" + ws, "LATTICE_SOCKET="}, env...)
	return reopen(t, cmd, dir)
}

// reopen gives cmd its input and a place for its output, again.
func reopen(t *testing.T, cmd *exec.Cmd, dir string) *exec.Cmd {
	t.Helper()
	again := exec.Command(cmd.Path)
	again.Env, again.Dir = cmd.Env, dir
	in, err := os.Open(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); out.Close() })
	again.Stdin, again.Stdout, again.Stderr = in, out, out
	return again
}

func testStart(t *testing.T, bin string) {
	t.Run("inits", func(t *testing.T) { testInits(t, bin) })
	t.Run("syscalls", func(t *testing.T) { testSyscalls(t, bin) })
	t.Run("session", func(t *testing.T) { testSessionSyscalls(t, bin) })
	t.Run("synced before told", func(t *testing.T) { testSyncedBeforeTold(t, bin) })
}

// testInits: what others' packages do that come along (the standard library, the client of MCP, the plumbing of git) is
// bounded by number; ours do nothing at all but make a value or two.
func testInits(t *testing.T, bin string) {
	cmd := place(t, bin, "fs.read", `{"path":"a"}`, "GODEBUG=inittrace=1")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(filepath.Join(cmd.Dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^init (\S+) @.* (\d+) bytes, (\d+) allocs$`)
	inits, size, allocs, ours := 0, 0, 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(trace)); lines.Scan(); {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		b, _ := strconv.Atoi(m[2]) // digits, as matched
		n, _ := strconv.Atoi(m[3])
		if !strings.Contains(m[1], "lattice/") {
			inits, size, allocs = inits+1, size+b, allocs+n
			continue
		}
		if ours += b; b > 1024 || ours > 2048 {
			t.Errorf("%s allocates %d bytes before main, all of ours %d: make it when it is first needed", m[1], b, ours)
		}
	}
	// Today's counts (108, 215 KiB, 1433) and some room for the next release of Go. Most are net/http's and crypto's, and
	// 110 KiB the MCP client's schemas.
	const maxInits, maxBytes, maxAllocs = 120, 240 << 10, 1600
	t.Logf("%d inits, %d bytes, %d allocs; ours %d bytes", inits, size, allocs, ours)
	if inits == 0 || inits > maxInits || size > maxBytes || allocs > maxAllocs {
		t.Errorf("before main: %d inits, %d bytes, %d allocs; want 1 to %d, %d, %d", inits, size, allocs, maxInits, maxBytes, maxAllocs)
	}
}

// aboutFiles is how many calls of the kernel are about files.
func aboutFiles(counts map[uint64]int) (files int) {
	for _, nr := range []uint64{
		syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_PREAD64, syscall.SYS_OPENAT, syscall.SYS_CLOSE, syscall.SYS_FSTAT,
		syscall.SYS_NEWFSTATAT, syscall.SYS_FLOCK, syscall.SYS_MKDIRAT, syscall.SYS_FCHMOD, syscall.SYS_RENAMEAT, syscall.SYS_GETDENTS64,
		syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_FTRUNCATE, syscall.SYS_UNLINKAT,
	} {
		files += counts[nr]
	}
	return files
}

// testSessionSyscalls: what one more small call costs in a session. It is recorded by one append and said by one write,
// or by two of each where the machine was so slow that it took longer than a moment.
func testSessionSyscalls(t *testing.T, bin string) {
	const more, most = 100, 20 // most is what the slowest machine needs
	var files, syncs [2]int
	for i, calls := range []int{10, 10 + more} {
		var in strings.Builder
		for n := range calls {
			fmt.Fprintf(&in, `{"call_id":"c%d","skill":"fs.read","input":{"path":"a"}}`+"\n", n)
		}
		cmd := place(t, bin, "spritekit", in.String(), "LATTICE_PERMISSIONS=fs:read", "GOMAXPROCS=2")
		cmd.Args = append(cmd.Args, "session")
		got := trace(t, cmd)
		files[i], syncs[i] = aboutFiles(got.calls), got.calls[syscall.SYS_FSYNC]+got.calls[syscall.SYS_FDATASYNC]
		out, err := os.ReadFile(filepath.Join(cmd.Dir, "out"))
		if err != nil || got.exit != 0 || bytes.Count(out, []byte(`{"ok":true`)) != calls {
			t.Fatalf("%d calls end with %d (%v):\n%s", calls, got.exit, err, out)
		}
	}
	t.Logf("%.2f system calls about files for each call", float64(files[1]-files[0])/more)
	if files[1]-files[0] > most*more || syncs[1] != syncs[0] {
		t.Errorf("%d system calls about files and %d fsyncs for %d more calls; want at most %d for each, and none",
			files[1]-files[0], syncs[1]-syncs[0], more, most)
	}
}

// testSyscalls: what a call asks of the kernel, in a workspace that is in use. The runtime of Go makes calls of its own
// that depend on the moment (futex, nanosleep, mmap, signals); counted are those about files, and threads.
func testSyscalls(t *testing.T, bin string) {
	const (
		clone3     = 435
		maxThreads = 9 // a program that does nothing has 3 or 4; under a tracer, where calls are slow, a few more
	)
	for _, tc := range []struct {
		name, skill, input string
		env                []string
		files, fsyncs      int
	}{
		// Today's counts and a dozen: what the runtime of Go reads of cgroups differs by machine.
		{"fs.read", "fs.read", `{"path":"a"}`, nil, 90, 0},
		{"fs.read with a call id", "fs.read", `{"path":"a"}`, []string{"LATTICE_CALL_ID=c"}, 121, 0},
		// The content, its folder, the ARTIFACT, the result: each must be on disk before what follows it (DESIGN 8).
		{"fs.write", "fs.write", `{"path":"b","content":"x"}`, nil, 150, 4},
		{"fs.write with a call id", "fs.write", `{"path":"b","content":"x"}`, []string{"LATTICE_CALL_ID=c"}, 181, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := place(t, bin, tc.skill, tc.input, append(tc.env, "GOMAXPROCS=2")...) // threads grow with processors
			first := trace(t, cmd)
			if n := first.calls[syscall.SYS_FSYNC] + first.calls[syscall.SYS_FDATASYNC]; n > tc.fsyncs+1 || first.exit != 0 {
				t.Errorf("%d fsyncs in a new workspace, want at most %d: one for the outbox that is made", n, tc.fsyncs+1)
			}
			for i, v := range cmd.Env { // another call in the same place
				if id, ok := strings.CutPrefix(v, "LATTICE_CALL_ID="); ok {
					cmd.Env[i] = "LATTICE_CALL_ID=" + id + "2"
				}
			}
			counts := trace(t, reopen(t, cmd, cmd.Dir)).calls
			files := aboutFiles(counts)
			fsyncs := counts[syscall.SYS_FSYNC] + counts[syscall.SYS_FDATASYNC]
			threads := counts[syscall.SYS_CLONE] + counts[clone3]
			t.Logf("%d about files, %d fsyncs, %d threads", files, fsyncs, threads)
			if files > tc.files || fsyncs != tc.fsyncs || threads > maxThreads {
				t.Errorf("%d system calls about files, %d fsyncs, %d threads; want at most %d, exactly %d, at most %d",
					files, fsyncs, threads, tc.files, tc.fsyncs, maxThreads)
			}
		})
	}
}
