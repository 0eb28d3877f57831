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
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/lead"
	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Restored is the outcome of a restore.
type Restored struct {
	Backup *BackupInfo `json:"backup,omitempty"` // nil when it was a plain store
	Runs   int         `json:"runs"`
	Kept   string      `json:"kept,omitempty"` // path of the former store
}

// VerifyBackup reads a backup to its end, verifies its checksums, and returns its description.
func VerifyBackup(ctx context.Context, r io.Reader) (BackupInfo, error) {
	return readArchive(ctx, r, "")
}

// Restore replaces the store of home, whose lock the caller holds, by that of a backup, or by a plain store file such as one
// that a restore kept. It unpacks and checks the backup first, then replaces the store in one step, and keeps the former
// store under another name. Without force it refuses a home that has a store. If the store is in a database, that must be empty.
func Restore(ctx context.Context, home home.Home, address string, from io.Reader, force bool, progress func(api.StoreProgress)) (out Restored, err error) {
	_, err = os.Lstat(address)
	switch {
	case store.IsDatabase(address):
	case err == nil && !force:
		return out, fault.Unsafe("home_not_empty", "%s has a store already", home).WithHint("--force replaces it and keeps it as runs.db.bak")
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
	if store.IsDatabase(address) {
		return out, problem.StoreProblem(importStore(ctx, filepath.Join(dir, memberStore), address, progress))
	}
	if out.Kept, err = replaceStore(filepath.Join(dir, memberStore), address); err != nil {
		return out, problem.StoreProblem(err)
	}
	s, err := store.Open(address)
	if err != nil {
		return out, problem.StoreProblem(err)
	}
	return out, problem.StoreProblem(errors.Join(lead.RenewIdentity(ctx, s), s.Close()))
}

// importStore copies the store in the file at path into a database.
func importStore(ctx context.Context, path, url string, progress func(api.StoreProgress)) error {
	from, err := store.OpenReadOnly(path)
	if err != nil {
		return err
	}
	to, err := store.Open(url)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	if err = to.Import(ctx, from, reportPart(progress, "records")); err == nil {
		err = lead.RenewIdentity(ctx, to)
	}
	return errors.Join(err, to.Close(), from.Close())
}

// unpackBackup unpacks an archive, or copies a plain store file.
func unpackBackup(ctx context.Context, from io.Reader, dir string) (*BackupInfo, error) {
	in := bufio.NewReader(from)
	if head, _ := in.Peek(len(memberInfo)); string(head) == memberInfo {
		about, err := readArchive(ctx, in, dir)
		if err == nil && about.Schema > store.SchemaVersion {
			err = fault.Unsupported("store_newer", "the backup's store has schema %d, this version reads up to %d", about.Schema, store.SchemaVersion).WithHint("update lattice")
		}
		return &about, err
	}
	_, err := unpackMember(stoppable{ctx, in}, dir, memberStore)
	if err != nil {
		return nil, readFault(ctx, err)
	}
	return nil, nil
}

// addBundles moves bundles into the home. Bundles of the same name have the same content.
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

// replaceStore replaces the store by the file at from, and keeps the former store under another name.
func replaceStore(from, path string) (kept string, err error) {
	if _, err := os.Lstat(path); err == nil {
		if kept, err = keepFormer(path); err != nil {
			return "", fmt.Errorf("keep the former store: %w", err)
		}
	}
	if err := os.Rename(from, path); err != nil {
		return kept, fmt.Errorf("restore the store: %w", err)
	}
	return kept, durable.SyncDir(filepath.Dir(path))
}

// keepFormer links the store under a second name, so that it exists at every moment. A folder is renamed.
func keepFormer(path string) (string, error) {
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
