package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newStoreBackupCmd(env *setup.Env) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup of all runs",
		Long: `Write a consistent backup of the store to FILE; "-" is standard output. Runs continue in the meantime. FILE appears once the
backup is complete, verified and on disk. An existing FILE is replaced only with --force.

A backup is a tar archive with the store, the bundles that approvals push, and checksums of both. It contains secrets of the
runs: protect it like the state directory. It does not contain sprites and logs: after a restore, a run that calls skills
can continue only where its sprite still exists.

--json prints one object: {"file","bytes","runs","created_at"}.
Exit codes: 0 done, 1 the store is damaged, 7 FILE exists, 9 a disk is full.`,
		Example: "  lattice store backup runs-today.tar\n  lattice store backup - | ssh backup@host 'cat >runs.tar'",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := connect.Dial(cmd.Context(), env, connect.Options{})
			if err != nil {
				return err
			}
			defer c.Close()
			show := cli.NewProgress(env.Console)
			defer show.Clear()
			if list[0] == "-" {
				return c.Backup(cmd.Context(), func(uint64) io.Writer { return env.Out })
			}
			about, size, err := backUp(cmd.Context(), c, list[0], force, show)
			show.Clear()
			if err != nil {
				return err
			}
			return env.PrintResult(map[string]any{"file": list[0], "bytes": size, "runs": about.Runs, "created_at": about.CreatedAt},
				"%s: %s, %s", list[0], cli.Count(about.Runs, "run", "runs"), cli.FormatBytes(size))
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE")
	return cmd
}

// backUp writes a backup next to path, verifies it and renames it to path.
func backUp(ctx context.Context, c *connect.Conn, path string, force bool, show *cli.Progress) (about storage.BackupInfo, size int64, err error) {
	if _, err := os.Lstat(path); err == nil && !force {
		return about, 0, fileExists(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".backup-*")
	if err != nil {
		return about, 0, fileProblem("back up", err)
	}
	defer func() {
		f.Close()
		if removed := os.Remove(f.Name()); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	n := show.CountBytes("copied", 0)
	if err := c.Backup(ctx, func(total uint64) io.Writer { n = show.CountBytes("written", total); return io.MultiWriter(f, n) }); err != nil {
		return about, 0, fileProblem("back up", err)
	}
	if err := f.Sync(); err != nil {
		return about, 0, fileProblem("back up", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return about, 0, fileProblem("back up", err)
	}
	if about, err = storage.VerifyBackup(ctx, io.TeeReader(f, show.CountBytes("verified", uint64(n.N)))); err != nil {
		return about, 0, err
	}
	name := os.Link // which does not replace
	if force {
		name = os.Rename
	}
	if err := name(f.Name(), path); errors.Is(err, os.ErrExist) {
		return about, 0, fileExists(path)
	} else if err != nil {
		return about, 0, fileProblem("back up", err)
	}
	return about, n.N, durable.SyncDir(filepath.Dir(path))
}

func fileExists(path string) error {
	return fault.Unsafe("file_exists", "%s already exists", path).WithHint("replace it with --force")
}

// fileProblem is a problem with a file that the user named.
func fileProblem(doing string, err error) error {
	var p *fault.Error
	switch {
	case errors.As(err, &p):
		return err
	case errors.Is(err, os.ErrPermission): // not one of the store
		return fault.Denied("denied", "%s: %v", doing, err)
	}
	return problem.StoreProblem(fmt.Errorf("%s: %w", doing, err))
}
