package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sys/unix"
)

// Show shows one more checkpoint in the running box, as Config.Points does from its start, and Hide takes one away. Only a
// host that is root can: an ordinary user's box cannot be changed once init has given up its capabilities, and both then
// return [errors.ErrUnsupported]. A process can still read the files of a hidden one that it has open.
func (b *Box) Show(p spec.Point) error {
	if b.cfg.Level != spec.LevelRoot {
		return fmt.Errorf("show checkpoint %s in a running sandbox: %w", p.ID, errors.ErrUnsupported)
	}
	if err := p.Check(); err != nil {
		return err
	}
	if err := placePoint(b.cfg, p.ID); err != nil {
		return err
	}
	mounts, err := view.OpenMounts([]view.Step{new(view.Plan).Tree(spec.PointPath(p.ID), p.Root, true)}, b.cfg.Level, b.ids)
	if err != nil {
		return fmt.Errorf("show checkpoint %s: %w", p.ID, err)
	}
	defer channel.CloseAll(mounts)
	err = enterMounts(b.cmd.Process.Pid, func() error {
		place, err := unix.Open("/"+spec.PointPath(p.ID), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(place)
		return unix.MoveMount(int(mounts[0].Fd()), "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
	if err != nil {
		return fmt.Errorf("show checkpoint %s: %w", p.ID, err)
	}
	return nil
}

// Hide takes a checkpoint away that the box shows; see Show.
func (b *Box) Hide(id string) error {
	if b.cfg.Level != spec.LevelRoot {
		return fmt.Errorf("hide checkpoint %s in a running sandbox: %w", id, errors.ErrUnsupported)
	}
	if err := (spec.Point{ID: id, Root: spec.Root{Dir: b.cfg.Run}}).Check(); err != nil {
		return err
	}
	err := enterMounts(b.cmd.Process.Pid, func() error { return unix.Unmount("/"+spec.PointPath(id), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	if err == nil {
		err = os.Remove(filepath.Join(b.cfg.Run, "checkpoints", id))
	}
	if err != nil {
		return fmt.Errorf("hide checkpoint %s: %w", id, err)
	}
	return nil
}

// enterMounts does something in the box's mount namespace. A thread goes there and never comes back: it ends.
func enterMounts(init int, do func() error) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", init))
	if err != nil {
		return err
	}
	defer namespace.Close()
	done := make(chan error)
	var visit func(begun chan<- struct{})
	visit = func(begun chan<- struct{}) {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread cannot end, and its view counts as that of the process
			other := make(chan struct{})
			go visit(other)
			<-other // on another thread, because this one is taken until then
			runtime.UnlockOSThread()
			close(begun)
			return
		}
		close(begun)
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}
	go visit(make(chan struct{}))
	return <-done
}
