// Package layer keeps the file trees of sprites and their checkpoints as layers. A layer is a folder with d/, the files,
// and with overlay also w/, which the kernel works in. It is live while a sprite writes to it and frozen for good after.
//
// Start at Driver. There are three, which differ in how they keep "the same files again":
//
//	overlay  an empty layer on top of a frozen one: in constant time at any size. A live layer must not be stacked
//	         upon while processes have it mounted, because they would continue to write into it. So it is copied; it holds
//	         only the changes, so only those are copied.
//	btrfs    a snapshot: constant time, and consistent even while processes write.
//	cas      a copy, on any file system and any system; blocks are shared where the file system can (FICLONE).
//
// A driver never decides which layers are needed, knows no sprite and keeps no list: that is host.db's part. It neither
// syncs what it makes nor follows links inside of a layer, because programs in a sprite made those.
package layer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Kind names a driver in records.
type Kind string

// The kinds.
const (
	Overlay Kind = "overlay"
	Btrfs   Kind = "btrfs"
	CAS     Kind = "cas"
)

// Driver makes and removes layers. All paths are those of layers, not of their d/. A layer that is being made must not
// exist before; after an error the caller removes the incomplete layer. Methods may be called from several goroutines.
type Driver interface {
	Kind() Kind
	// Make makes an empty live layer whose top belongs to uid and gid; -1 leaves it to the caller's user.
	Make(dir string, uid, gid int) error
	// Clone makes a layer with the files of another, which may be in use when LiveSafe says so.
	Clone(ctx context.Context, from, dir string) error
	// Complete makes a layer, or a copy of it, hold all that shows while it is in use. It is done before the layer is frozen,
	// and may be done again. of is the layer itself; below are the files that it lies on, topmost first. No process writes to it.
	Complete(ctx context.Context, dir, of string, below []string) error
	// Freeze drops the parts that a layer needs only to be written to. It is not mounted.
	Freeze(dir string) error
	// Remove removes a layer, whole or half made; a missing one is no error.
	Remove(dir string) error
	// Stacks says that an empty layer may lie on a frozen one in the place of a clone.
	Stacks() bool
	// LiveSafe says that a clone holds the files of one moment although processes write to the original.
	LiveSafe() bool
}

// Data is the folder of a layer that holds its files.
func Data(dir string) string { return filepath.Join(dir, "d") }

// Work is the folder that an overlay of a live layer works in.
func Work(dir string) string { return filepath.Join(dir, "w") }

// Open returns the driver of a kind.
func Open(kind Kind) (Driver, error) {
	switch kind {
	case Overlay:
		return overlay{}, nil
	case Btrfs:
		return btrfs{}, nil
	case CAS:
		return cas{}, nil
	}
	return nil, fmt.Errorf("there is no storage driver %q: use overlay, btrfs or cas", kind)
}

// makeFolder makes one folder and gives it to uid and gid.
func makeFolder(dir string, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Again, because the umask took part above.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if uid < 0 {
		return nil
	}
	return os.Lchown(dir, uid, gid)
}

type overlay struct{}

func (overlay) Kind() Kind     { return Overlay }
func (overlay) Stacks() bool   { return true }
func (overlay) LiveSafe() bool { return false }

func (overlay) Make(dir string, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	if err := errors.Join(makeFolder(Data(dir), uid, gid), makeFolder(Work(dir), uid, gid)); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return nil
}

func (overlay) Clone(ctx context.Context, from, dir string) error {
	if err := clone(ctx, from, dir); err != nil {
		return err
	}
	if err := os.Mkdir(Work(dir), 0o755); err != nil { // should it become a live one
		return fmt.Errorf("make layer: %w", err)
	}
	return nil
}

// Complete adds the names of hard-linked files of which only the work folder knows.
func (overlay) Complete(ctx context.Context, dir, of string, below []string) error {
	index := filepath.Join(Work(of), "index")
	if err := tree.Relink(ctx, Data(dir), index, append([]string{Data(of)}, below...)...); err != nil {
		return fmt.Errorf("complete layer: %w", err)
	}
	return nil
}

// Freeze drops the work folder; no overlay writes to the layer again.
func (overlay) Freeze(dir string) error {
	if err := tree.Remove(Work(dir)); err != nil {
		return fmt.Errorf("freeze layer: %w", err)
	}
	return nil
}

func (overlay) Remove(dir string) error { return removeDir(dir) }

type cas struct{}

func (cas) Kind() Kind          { return CAS }
func (cas) Stacks() bool        { return false }
func (cas) LiveSafe() bool      { return false }
func (cas) Freeze(string) error { return nil }

// Complete has nothing to do: a copy is complete.
func (cas) Complete(context.Context, string, string, []string) error { return nil }

func (cas) Make(dir string, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	if err := makeFolder(Data(dir), uid, gid); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return nil
}

func (cas) Clone(ctx context.Context, from, dir string) error { return clone(ctx, from, dir) }
func (cas) Remove(dir string) error                           { return removeDir(dir) }

// clone copies the files of a layer.
func clone(ctx context.Context, from, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return tree.Copy(ctx, Data(from), Data(dir))
}

func removeDir(dir string) error {
	if err := tree.Remove(dir); err != nil {
		return fmt.Errorf("remove layer: %w", err)
	}
	return nil
}
