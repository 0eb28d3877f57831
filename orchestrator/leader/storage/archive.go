package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A backup is a tar archive, in this order:
//
//	lattice-backup.json        BackupInfo
//	runs.db                    the store, as of one moment
//	bundles/<sha256>.bundle    verified copies of proposed pushes, which an approval sends
//	sums.json                  the sha256 of every member before it; an archive without it is truncated
//
// With them every wait can be answered, every approved push can be made, and every run can continue that calls no skills or
// whose sprite exists. Sprites are not included: they are large, change all the time, and may be on a remote host. Logs and
// files that are made again, such as skills and repository seeds, are not included either.
const (
	backupFormat = 1

	memberInfo   = "lattice-backup.json"
	memberStore  = "runs.db"
	memberBundle = "bundles/"
	memberSums   = "sums.json"

	maxSmallMember = 16 << 20 // the two JSON members
)

// BackupInfo describes a backup.
type BackupInfo struct {
	Format    int       `json:"format"`
	Lattice   string    `json:"lattice"` // version that made it
	Schema    int       `json:"schema"`  // of the store
	CreatedAt time.Time `json:"created_at"`
	Runs      int       `json:"runs"`
}

// bundleName matches the names of bundles.
var bundleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}\.bundle$`) })

// archive writes members and collects their checksums.
type archive struct {
	tar  *tar.Writer
	sums map[string]string
}

func writeArchive(ctx context.Context, w io.Writer, about BackupInfo, storeFile string, bundles []string) error {
	a := &archive{tar: tar.NewWriter(w), sums: map[string]string{}}
	if err := a.addJSON(memberInfo, about); err != nil {
		return err
	}
	if err := a.addFile(ctx, memberStore, storeFile); err != nil {
		return err
	}
	for _, path := range bundles {
		err := a.addFile(ctx, memberBundle+filepath.Base(path), path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // pruned since
			return err
		}
	}
	if err := a.addJSON(memberSums, a.sums); err != nil {
		return err
	}
	if err := a.tar.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// listBundles returns the paths of the verified bundles in a folder, and how many bytes they have.
func listBundles(dir string) (paths []string, size int64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("back up bundles: %w", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !bundleName().MatchString(f.Name()) || !f.Type().IsRegular() {
			continue // pruned since, or being fetched
		}
		paths, size = append(paths, filepath.Join(dir, f.Name())), size+info.Size()
	}
	return paths, size, nil
}

func (a *archive) addJSON(name string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return a.addMember(name, int64(len(raw)), bytes.NewReader(raw))
}

func (a *archive) addFile(ctx context.Context, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("back up %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("back up %s: %w", name, err)
	}
	return a.addMember(name, info.Size(), stoppable{ctx, f})
}

func (a *archive) addMember(name string, size int64, r io.Reader) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.tar, h), r, size); err != nil {
		return fmt.Errorf("write backup: %s: %w", name, err)
	}
	a.sums[name] = hex.EncodeToString(h.Sum(nil))
	return nil
}

// stoppable is a reader that fails when its context ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// damagedBackup returns the error of a damaged archive.
func damagedBackup(format string, args ...any) error {
	return fault.Failed("backup_damaged", "the backup is damaged: "+format, args...).WithHint("use another backup; nothing was changed")
}

// readArchive unpacks an archive into an empty directory, or only reads it if dir is "". It verifies all checksums, and syncs
// the unpacked files.
func readArchive(ctx context.Context, r io.Reader, dir string) (BackupInfo, error) {
	var about BackupInfo
	sums, told := map[string]string{}, map[string]string(nil)
	for in := tar.NewReader(stoppable{ctx, r}); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return about, readFault(ctx, err)
		}
		_, twice := sums[h.Name]
		bundle, isBundle := strings.CutPrefix(h.Name, memberBundle)
		switch {
		case told != nil, twice, h.Typeflag != tar.TypeReg, len(sums) == 0 && h.Name != memberInfo:
			return about, damagedBackup("%q does not belong there", h.Name)
		case h.Name == memberInfo:
			sums[h.Name], err = readJSON(in, h, &about)
			if err == nil && about.Format > backupFormat {
				return about, fault.Unsupported("backup_newer", "lattice %s made this backup in format %d; this version reads up to %d", about.Lattice, about.Format, backupFormat).WithHint("update lattice")
			}
		case h.Name == memberSums:
			_, err = readJSON(in, h, &told)
		case h.Name == memberStore, isBundle && bundleName().MatchString(bundle):
			sums[h.Name], err = unpackMember(in, dir, h.Name)
			if err == nil && isBundle && sums[h.Name]+".bundle" != bundle {
				return about, damagedBackup("the digest of %s is not the one in its name", h.Name)
			}
		default:
			return about, damagedBackup("%q does not belong there", h.Name)
		}
		if err != nil {
			return about, readFault(ctx, err)
		}
	}
	switch {
	case told == nil:
		return about, damagedBackup("it was cut off")
	case sums[memberStore] == "":
		return about, damagedBackup("it holds no store")
	case len(sums) != len(told):
		return about, damagedBackup("it has %d members and lists %d", len(sums), len(told))
	}
	for name, sum := range told {
		if sums[name] != sum {
			return about, damagedBackup("the checksum of %s is wrong", name)
		}
	}
	return about, nil
}

// readFault tells a damaged archive apart from failures of the reader and of the disk.
func readFault(ctx context.Context, err error) error {
	var path *fs.PathError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &path):
		return problem.StoreProblem(fmt.Errorf("unpack the backup: %w", err))
	}
	return damagedBackup("%v", err)
}

func readJSON(r io.Reader, h *tar.Header, v any) (sum string, err error) {
	if h.Size > maxSmallMember {
		return "", fmt.Errorf("%s has %d bytes", h.Name, h.Size)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return "", fmt.Errorf("%s: %w", h.Name, err)
	}
	digest := sha256.Sum256(raw)
	return hex.EncodeToString(digest[:]), nil
}

func unpackMember(r io.Reader, dir, name string) (sum string, err error) {
	h := sha256.New()
	if dir == "" {
		_, err := io.Copy(h, r)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(io.MultiWriter(f, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), f.Sync()
}
