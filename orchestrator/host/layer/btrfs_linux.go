package layer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Numbers of linux/btrfs.h.
const (
	btrfsSubvolCreate = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	btrfsSnapCreate   = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	btrfsSnapDestroy  = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	btrfsSubvolInode  = 256        // of the top of every subvolume
)

// volArgs is struct btrfs_ioctl_vol_args.
type volArgs struct {
	fd   int64
	name [4088]byte
}

// volArgsV2 is struct btrfs_ioctl_vol_args_v2.
type volArgsV2 struct {
	fd      int64
	transid uint64
	flags   uint64
	unused  [4]uint64
	name    [4040]byte
}

// btrfs has one subvolume per layer, called d in the layer's folder.
type btrfs struct{}

func (btrfs) Kind() Kind          { return Btrfs }
func (btrfs) Stacks() bool        { return false }
func (btrfs) LiveSafe() bool      { return true }
func (btrfs) Freeze(string) error { return nil }

// Complete has nothing to do: a snapshot is complete.
func (btrfs) Complete(context.Context, string, string, []string) error { return nil }

// OnBtrfs reports whether dir lies on btrfs.
func OnBtrfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BTRFS_SUPER_MAGIC
}

func (btrfs) Make(dir string, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	var args volArgs
	copy(args.name[:], "d")
	if err := inFolder(dir, btrfsSubvolCreate, unsafe.Pointer(&args)); err != nil {
		return fmt.Errorf("make btrfs subvolume in %s: %w", dir, err)
	}
	if err := os.Chmod(Data(dir), 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	if uid < 0 {
		return nil
	}
	return os.Lchown(Data(dir), uid, gid)
}

func (btrfs) Clone(_ context.Context, from, dir string) error {
	source, err := os.Open(Data(from))
	if err != nil {
		return fmt.Errorf("snapshot layer: %w", err)
	}
	defer source.Close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	args := volArgsV2{fd: int64(source.Fd())}
	copy(args.name[:], "d")
	if err := inFolder(dir, btrfsSnapCreate, unsafe.Pointer(&args)); err != nil {
		return fmt.Errorf("snapshot layer %s: %w", from, err)
	}
	return nil
}

// Remove deletes the subvolume, or empties it where the file system lets only root delete one: an empty one can be
// removed like a folder.
func (btrfs) Remove(dir string) error {
	st, err := os.Lstat(Data(dir))
	if err == nil && st.IsDir() && inodeOf(st) == btrfsSubvolInode {
		var args volArgs
		copy(args.name[:], filepath.Base(Data(dir)))
		err := inFolder(dir, btrfsSnapDestroy, unsafe.Pointer(&args))
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("delete btrfs subvolume of %s: %w", dir, err)
		}
	}
	if err := tree.Remove(dir); err != nil {
		return fmt.Errorf("remove layer: %w", err)
	}
	return nil
}

// inFolder does an ioctl on a folder.
func inFolder(dir string, request uintptr, arg unsafe.Pointer) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
