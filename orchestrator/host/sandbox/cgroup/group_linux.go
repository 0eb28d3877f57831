package cgroup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// Group is the control groups of one box: one in each hierarchy in which this process may make groups and whose controllers
// are of use. Together they limit the box, freeze it and kill it. Init is in them from its first moment, and all
// other processes descend from init. A group without dirs does nothing.
type Group struct {
	dirs []groupDir
	kept map[spec.Defence]bool // limits that the kernel has taken over
}

// groupDir is a box's group in one hierarchy.
type groupDir struct {
	hierarchy
	path string
}

// New makes the groups of a box, without limits. Groups that cannot be made are left out; see Enforced.
func New() *Group {
	g := &Group{kept: map[spec.Defence]bool{}}
	name := groupName()
	for _, h := range findHierarchies() {
		path := filepath.Join(h.own, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			continue // not ours to use
		}
		g.dirs = append(g.dirs, groupDir{h, path})
	}
	return g
}

// Limit sets the limits of a box before its first process runs.
func (g *Group) Limit(c spec.Config) {
	limits := c.Limits
	if !c.Plain() && spec.CountsPerNamespace() {
		limits.Pids += spec.SpareThreads
	}
	for _, d := range g.dirs {
		for _, limit := range []struct {
			of  spec.Defence
			set func(spec.Limits) error
		}{{spec.DefencePids, d.limitPids}, {spec.DefenceMemory, d.limitMemory}, {spec.DefenceCPU, d.limitCPU}} {
			if d.canLimit(limit.of) && c.Defended(limit.of) && limit.set(limits) == nil {
				g.kept[limit.of] = true
			}
		}
	}
}

// canLimit reports whether groups of the hierarchy can keep a limit.
func (h hierarchy) canLimit(limit spec.Defence) bool {
	return slices.Contains(h.controllers, string(limit))
}

func (d groupDir) writeValue(file, value string) error {
	return os.WriteFile(filepath.Join(d.path, file), []byte(value), 0)
}

func (d groupDir) limitPids(l spec.Limits) error {
	return d.writeValue("pids.max", strconv.Itoa(l.Pids))
}

func (d groupDir) limitMemory(l spec.Limits) error {
	bytes := strconv.FormatInt(l.MemoryBytes, 10)
	if !d.unified {
		err := d.writeValue("memory.limit_in_bytes", bytes)
		if errors.Is(err, unix.EINVAL) { // more than memory and swap together may be, which goes up first then
			err = errors.Join(d.writeValue("memory.memsw.limit_in_bytes", bytes), d.writeValue("memory.limit_in_bytes", bytes))
		}
		if err != nil {
			return err
		}
		return spec.Ignoring(unix.ENOENT, d.writeValue("memory.memsw.limit_in_bytes", bytes)) // missing without accounting of swap
	}
	if err := d.writeValue("memory.max", bytes); err != nil {
		return err
	}
	return spec.Ignoring(unix.ENOENT, d.writeValue("memory.swap.max", "0"))
}

// Resize changes the limit of memory of a box that runs. Version 1 refuses a limit below the memory in
// use; version 2 would kill processes, so Resize checks the memory in use first.
func (g *Group) Resize(l spec.Limits) error {
	for _, d := range g.dirs {
		if !d.canLimit(spec.DefenceMemory) {
			continue
		}
		if used := d.memoryInUse(); d.unified && used > l.MemoryBytes {
			return fmt.Errorf("its processes use %d MiB", used>>20)
		}
		if err := d.limitMemory(l); errors.Is(err, unix.EBUSY) {
			return errors.New("its processes use more")
		} else if err != nil {
			return err
		}
	}
	return nil
}

// memoryInUse is the memory of a unified group that the kernel cannot take back, 0 when that cannot be told.
func (d groupDir) memoryInUse() (used int64) {
	stat, err := os.ReadFile(filepath.Join(d.path, "memory.stat"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(stat)) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == "anon" || name == "shmem" {
			bytes, _ := strconv.ParseInt(n, 10, 64) // of the kernel's own writing
			used += bytes
		}
	}
	return used
}

// limitCPU gives the box no more than some processors' worth, if asked for. Without that a group weighs, as a whole, as much
// as one process of the host's.
func (d groupDir) limitCPU(l spec.Limits) error {
	const period = 100_000 // µs
	quota := max(int64(l.CPUs*period), 1000)
	switch {
	case l.CPUs <= 0:
		return nil
	case d.unified:
		return d.writeValue("cpu.max", fmt.Sprintf("%d %d", quota, period))
	default:
		return errors.Join(d.writeValue("cpu.cfs_period_us", strconv.Itoa(period)), d.writeValue("cpu.cfs_quota_us", strconv.FormatInt(quota, 10)))
	}
}

// Start starts cmd in the groups. The kernel puts a child where the thread is that makes it, so a thread goes there and
// back: moving a process that runs would cost it, and the machine, a pause of many milliseconds.
func (g *Group) Start(cmd *exec.Cmd) error {
	for _, d := range g.dirs {
		if d.unified {
			dir, err := os.Open(d.path)
			if err != nil {
				return fmt.Errorf("open the box's control group: %w", err)
			}
			defer dir.Close()
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		}
	}
	if !slices.ContainsFunc(g.dirs, func(d groupDir) bool { return !d.unified }) {
		return cmd.Start()
	}
	return onOtherThread(func() error { return g.visitGroups(cmd.Start) })
}

// onOtherThread calls do on a thread other than the first of the process: the kernel reports the groups of the first thread as those of
// the process, and a box that is made at the same time would be put below this one.
func onOtherThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onOtherThread(do) // while this thread is held
			return
		}
		err := do()
		if err == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine, wherever it is
		}
		done <- err
	}()
	return <-done
}

// visitGroups has the calling thread do something in the groups of older kind.
func (g *Group) visitGroups(do func() error) (err error) {
	for _, d := range g.dirs {
		if d.unified {
			continue
		}
		if err := os.WriteFile(filepath.Join(d.path, "tasks"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter the box's control group: %w", err)
		}
		defer func() {
			err = errors.Join(err, os.WriteFile(filepath.Join(d.own, "tasks"), []byte("0"), 0))
		}()
	}
	return do()
}

// Freezer is the group by which the box is held still: best a unified one, in which the held can be killed.
func (g *Group) Freezer() (best groupDir, ok bool) {
	for _, d := range g.dirs {
		if d.canFreeze() && (!ok || d.unified) {
			best, ok = d, true
		}
	}
	return best, ok
}

// Thaw lets frozen processes go on.
func (g *Group) Thaw() {
	if d, ok := g.Freezer(); ok {
		_ = d.Thaw() // there is no other way, and remove reports the remaining processes
	}
}

// canFreeze reports whether groups of the hierarchy can be held still.
func (h hierarchy) canFreeze() bool { return h.unified || slices.Contains(h.controllers, "freezer") }

// Freeze returns when all of the group stands still; when ctx ends first, it goes on. gone is closed with the group.
func (d groupDir) Freeze(ctx context.Context, gone <-chan struct{}) error {
	file, value, is, frozen := "freezer.state", "FROZEN", "freezer.state", "FROZEN"
	if d.unified {
		file, value, is, frozen = "cgroup.freeze", "1", "cgroup.events", "frozen 1"
	}
	if err := d.writeValue(file, value); err != nil {
		return err
	}
	for pause := firstWait; !d.hasLine(is, frozen); pause = min(2*pause, lastWait) {
		select {
		case <-time.After(pause): // not all kernels tell when it is done
		case <-gone: // and with it the files that would tell
			return ErrGroupGone
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not all processes came to rest: %w", ctx.Err()), d.Thaw())
		}
	}
	return nil
}

func (d groupDir) Thaw() error {
	file, value := "cgroup.freeze", "0"
	if !d.unified {
		file, value = "freezer.state", "THAWED"
	}
	return spec.Ignoring(unix.ENOENT, d.writeValue(file, value)) // a removed group has no processes
}

// hasLine reports whether a file of the group has a certain line.
func (d groupDir) hasLine(file, line string) bool {
	b, err := os.ReadFile(filepath.Join(d.path, file))
	return err == nil && slices.Contains(strings.Split(string(b), "\n"), line)
}

// killTimeout bounds how long killed processes may take to be gone.
const killTimeout = 5 * time.Second

// Remove kills the processes in the groups and removes the groups.
func (g *Group) Remove() error {
	var failed error
	for _, d := range g.dirs {
		failed = errors.Join(failed, d.removeGroup())
	}
	return failed
}

func (d groupDir) removeGroup() error {
	for began, pause := time.Now(), firstWait; ; pause = min(2*pause, lastWait) {
		err := os.Remove(d.path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Since(began) > killTimeout {
			return fmt.Errorf("remove a box's control group: %w", err)
		}
		d.killAll()
		if err := d.removeInner(); err != nil {
			return err
		}
		time.Sleep(pause) // the kernel does not notify
	}
}

// removeInner removes the groups inside of the group: of boxes whose host ran in it.
func (d groupDir) removeInner() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil // removed since
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := (groupDir{d.hierarchy, filepath.Join(d.path, e.Name())}).removeGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// killAll ends the processes of the group.
func (d groupDir) killAll() {
	if d.unified && d.writeValue("cgroup.kill", "1") == nil {
		return
	}
	b, _ := os.ReadFile(filepath.Join(d.path, "cgroup.procs")) // without it there is no process to kill
	for line := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 && pid != os.Getpid() {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	if d.canFreeze() {
		_ = d.Thaw() // who is held by the older freezer does not die
	}
}

// groupPrefix begins the names of all groups that this program makes. The rest names their maker.
const groupPrefix = "lattice-"

// groupName names a box's groups so that those of a host that was killed can be told: by the host's pid namespace, its
// number there, and when it started.
func groupName() string {
	return fmt.Sprintf("%s%s-%s", groupPrefix, ownerOf(os.Getpid()), strings.ToLower(rand.Text()[:10]))
}

// ownerOf names a process of this pid namespace for good. One that was killed has ended, even if its parent has not asked for its exit
// status yet, or never does.
func ownerOf(pid int) string {
	namespace, _ := os.Readlink("/proc/self/ns/pid") // "pid:[number]"; without it names are still unlike those of others
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	const startTime = 19 // of the fields after the name
	began := "gone"
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(fields) > startTime && !strings.Contains("ZX", fields[0]) {
		began = fields[startTime]
	}
	return fmt.Sprintf("%s-%d-%s", strings.Trim(namespace, "pid:[]"), pid, began)
}

// Sweep removes the control groups of boxes whose host was killed, with any processes in them.
func Sweep() error {
	var failed error
	for _, h := range findHierarchies() {
		var left []groupDir
		err := filepath.WalkDir(h.top, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // removed since, or not visible to us
			case !d.IsDir():
				return nil
			case !strings.HasPrefix(d.Name(), groupPrefix):
				return nil
			}
			if parts := strings.Split(d.Name(), "-"); len(parts) == 5 {
				pid, err := strconv.Atoi(parts[2])
				if own := strings.Split(ownerOf(pid), "-"); err == nil && own[0] == parts[1] && own[2] != parts[3] {
					left = append(left, groupDir{h, path})
				}
			}
			return nil
		})
		failed = errors.Join(failed, err)
		for _, d := range slices.Backward(left) { // those below others first
			failed = errors.Join(failed, spec.Ignoring(unix.EACCES, d.removeGroup()))
		}
	}
	return failed
}

// Used returns how much the processes of the box use of what a limit bounds: their number, bytes of memory that the kernel cannot
// take back, or the seconds of processor time since the box started. It returns 0 if no group counts them.
func (g *Group) Used(limit spec.Defence) float64 {
	for _, d := range g.dirs {
		used := 0.0
		switch {
		case limit == spec.DefencePids:
			used = d.readNumber("pids.current", "")
		case limit == spec.DefenceMemory && d.unified:
			used = float64(d.memoryInUse())
		case limit == spec.DefenceMemory:
			used = d.readNumber("memory.stat", "total_rss")
		case limit == spec.DefenceCPU && d.unified:
			used = d.readNumber("cpu.stat", "usage_usec") / 1e6
		case limit == spec.DefenceCPU:
			used = d.readNumber("cpuacct.usage", "") / 1e9
		}
		if used > 0 {
			return used
		}
	}
	return 0
}

// readNumber reads a number from a file of the group, from the line that begins with a name, 0 if there is none.
func (d groupDir) readNumber(file, name string) float64 {
	text, err := os.ReadFile(filepath.Join(d.path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); ok && err == nil {
			return n
		}
	}
	return 0
}

// Keeps reports whether the kernel bounds the box by a group.
func (g *Group) Keeps(limit spec.Defence) bool { return g.kept[limit] }

// Pauses between looks whether a group has reached a state.
const (
	firstWait = 100 * time.Microsecond
	lastWait  = 5 * time.Millisecond
)
