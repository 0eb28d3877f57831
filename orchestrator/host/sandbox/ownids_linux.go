package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sys/unix"
)

// TryOwnIDs says why boxes whose files lie in dir cannot have Config.OwnIDs, nil when they can. It finds out by doing, with
// files in dir that it removes. self is Config.Self.
func TryOwnIDs(self, dir string) (err error) {
	if spec.Best() != spec.LevelRoot {
		return errors.New("only root can give sprites ids of their own")
	}
	r, err := idrange.Take(self)
	if err != nil {
		return err
	}
	defer r.Release()
	if !spec.MappedRange("/proc/self/uid_map", r.First) || !spec.MappedRange("/proc/self/gid_map", r.First) {
		return fmt.Errorf("root here has no ids %d to %d to give", r.First, r.First+spec.MapSize-1)
	}
	scratch, err := os.MkdirTemp(dir, "ids-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	tree := spec.Root{Upper: filepath.Join(scratch, "upper"), Work: filepath.Join(scratch, "work"), Lower: []string{filepath.Join(scratch, "lower")}}
	for _, d := range []string{tree.Upper, tree.Work, tree.Lower[0]} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Lchown(d, spec.OutsideLow, spec.OutsideLow)); err != nil {
			return err
		}
	}
	for _, s := range []view.Step{{Kind: view.StepBind, Source: tree.Lower[0], Own: true}, {Kind: view.StepOverlay, Tree: &tree, Own: true}} {
		mount, err := s.Open(spec.LevelRoot, r)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Fstat(int(mount.Fd()), &st)
		mount.Close()
		if err != nil {
			return err
		}
		if int(st.Uid) != r.First {
			return fmt.Errorf("a mount of kind %s shows owner %d, not %d", s.Kind, st.Uid, r.First)
		}
	}
	return nil
}
