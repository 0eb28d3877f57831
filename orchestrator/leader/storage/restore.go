package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Restored is what a restore did.
type Restored struct {
	Backup *BackupInfo `json:"backup,omitempty"` // nil when it was a plain store
	Runs   int         `json:"runs"`
	Kept   string      `json:"kept,omitempty"` // where the former store is now
}

// VerifyBackup reads a backup to its end and says what it is. It fails when a byte of it is not as it was written.
func VerifyBackup(ctx context.Context, r io.Reader) (BackupInfo, error) {
	return readArchive(ctx, r, "")
}

// Restore makes the store of a backup, or a plain store file such as one that a restore kept, the store of home, whose
// lock the caller holds. The backup is unpacked beside the store and checked first; the store changes in one step, and
// the former one is kept beside it. Without force a home that has a store is refused.
func Restore(ctx context.Context, home home.Home, from io.Reader, force bool, progress func(api.StoreProgress)) (out Restored, err error) {
	_, err = os.Lstat(home.Store())
	switch {
	case err == nil && !force:
		return out, fault.Unsafe("home_not_empty", "%s has a store already", home).WithHint("--force puts the backup in its place and keeps it beside it as runs.db.bak")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return out, problem.StoreProblem(fmt.Errorf("look at the store: %w", err))
	}
	dir, err := os.MkdirTemp(string(home), ".restore-*")
	if err != nil {
		return out, problem.StoreProblem(fmt.Errorf("restore: %w", err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if out.Backup, err = unpackBackup(ctx, from, dir); err != nil {
		return out, err
	}
	report, err := CheckFile(ctx, filepath.Join(dir, memberStore), progress)
	if err != nil {
		return out, err
	}
	if len(report.Findings) > 0 {
		return out, damagedBackup("%s: %s", report.Findings[0].Code, report.Findings[0].Message)
	}
	out.Runs = report.Runs
	if err := addBundles(filepath.Join(dir, memberBundle), home.Bundles()); err != nil {
		return out, problem.StoreProblem(fmt.Errorf("restore bundles: %w", err))
	}
	out.Kept, err = swap(filepath.Join(dir, memberStore), home.Store())
	return out, problem.StoreProblem(err)
}

// unpackBackup takes an archive or a plain store file.
func unpackBackup(ctx context.Context, from io.Reader, dir string) (*BackupInfo, error) {
	in := bufio.NewReader(from)
	if head, _ := in.Peek(len(memberInfo)); string(head) == memberInfo {
		about, err := readArchive(ctx, in, dir)
		if err == nil && about.Schema > store.SchemaVersion {
			err = fault.Unsupported("store_newer", "the backup's store has schema %d, this version reads up to %d", about.Schema, store.SchemaVersion).WithHint("update lattice")
		}
		return &about, err
	}
	_, err := unpack(stoppable{ctx, in}, dir, memberStore)
	if err != nil {
		return nil, readFault(ctx, err)
	}
	return nil, nil
}

// addBundles moves bundles that are not there yet; their names tell their content.
func addBundles(from, to string) error {
	files, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return durable.SyncDir(to)
}

// swap puts the file at from in the place of the store, which stays beside it under another name.
func swap(from, path string) (kept string, err error) {
	if _, err := os.Lstat(path); err == nil {
		if kept, err = keep(path); err != nil {
			return "", fmt.Errorf("keep the former store: %w", err)
		}
	}
	if err := os.Rename(from, path); err != nil {
		return kept, fmt.Errorf("restore the store: %w", err)
	}
	return kept, durable.SyncDir(filepath.Dir(path))
}

// keep gives the store a second name, so that at no moment there is none. A folder cannot have two and is moved.
func keep(path string) (string, error) {
	for n := 1; ; n++ {
		name := path + ".bak"
		if n > 1 {
			name = fmt.Sprintf("%s.bak-%d", path, n)
		}
		if _, err := os.Lstat(name); err == nil {
			continue
		}
		err := os.Link(path, name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(path, name)
		}
		return name, err
	}
}
