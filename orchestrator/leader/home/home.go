// Package home names the places of a state directory ($LATTICE_HOME) and holds the lock that makes a process its leader.
// Start with Home and Home.Acquire.
package home

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/fault"
)

// Home is a state directory ($LATTICE_HOME).
type Home string

// Store is the bbolt file with all runs.
func (h Home) Store() string { return filepath.Join(string(h), "runs.db") }

// Sprites is the embedded host's directory.
func (h Home) Sprites() string { return filepath.Join(string(h), "sprites") }

// Bundles holds verified copies of the bundles that sprites proposed to push, named by content.
func (h Home) Bundles() string { return filepath.Join(string(h), "bundles") }

// Scratch holds temporary repositories; it is wiped by the next leader.
func (h Home) Scratch() string { return filepath.Join(string(h), "scratch") }

// Mirrors caches repositories that runs name by URL.
func (h Home) Mirrors() string { return filepath.Join(string(h), "mirrors") }

// Run is a run's own directory: its repository bundle and its log.
func (h Home) Run(id string) string { return filepath.Join(string(h), "runs", id) }

// Notifications is where notifications wait to be delivered.
func (h Home) Notifications() string { return filepath.Join(string(h), "notifications") }

// SigningKey is the private key that signs statements about verified commits.
func (h Home) SigningKey() string { return filepath.Join(string(h), "signing.key") }

// Logs holds the logs of leaders in the background.
func (h Home) Logs() string { return filepath.Join(string(h), "logs") }

// Skills is where the spritekit with this digest is installed.
func (h Home) Skills(digest string) string { return filepath.Join(string(h), "skills", digest) }

// DropIns holds copies of drop-in skills, made when a run or a sprite was given them.
func (h Home) DropIns() string { return filepath.Join(string(h), "dropins") }

// maxSocketPath is the longest path that a unix socket address holds, with room for its end.
const maxSocketPath = 100

// Socket is where the leader listens. A path that is too long for a socket address is replaced by one in the user's
// own directory below the system's temporary one.
func (h Home) Socket() string {
	if h == "" {
		return "" // no process listens there
	}
	path := filepath.Join(string(h), "lattice.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(h))
	return filepath.Join(shortDir(), hex.EncodeToString(sum[:12])+".sock")
}

func shortDir() string { return "/tmp/lattice-" + strconv.Itoa(os.Getuid()) }

// prepare makes the directory, with access for its owner alone. Its errors have remedies.
func (h Home) prepare() error {
	if h == "" {
		return fault.BadInput("home_unknown", "there is no place to keep runs: neither LATTICE_HOME nor HOME is set").WithHint("export LATTICE_HOME=DIR")
	}
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return homeProblem("make state directory", err)
	}
	info, err := os.Stat(string(h))
	if err != nil {
		return homeProblem("look at state directory", err)
	}
	if why := describeUnfit(info, os.Getuid()); why != "" {
		return fault.Unsafe("home_unsafe", "the state directory %s %s", h, why).WithHint("chmod o-w it, run lattice as its owner, or set LATTICE_HOME to a directory of your own")
	}
	if !strings.HasPrefix(h.Socket(), shortDir()+"/") {
		return nil
	}
	if err := os.Mkdir(shortDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return homeProblem("make socket directory", err)
	}
	if info, err = os.Lstat(shortDir()); err != nil {
		return homeProblem("make socket directory", err)
	}
	if why := describeUnfit(info, os.Getuid()); why != "" || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return fault.Unsafe("home_unsafe", "%s belongs to another user or is open to others", shortDir()).WithHint("set LATTICE_HOME to a shorter path, whose socket needs no place in /tmp")
	}
	return nil
}

// describeUnfit returns the reason why a directory must not hold runs and their secrets, "" if it may.
func describeUnfit(info os.FileInfo, uid int) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != uid {
		return "belongs to another user"
	}
	if info.Mode().Perm()&0o002 != 0 {
		return "may be written by everybody"
	}
	return ""
}

// homeProblem adds code and remedy to the error of a state directory that cannot be used. It wraps other errors.
func homeProblem(doing string, err error) error {
	const elsewhere = "set LATTICE_HOME to a directory that you may write"
	text := fmt.Sprintf("%s: %v", doing, err)
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fault.BadInput("home_not_directory", "%s", text).WithHint("LATTICE_HOME is a directory; something else is in its place")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.BadInput("home_too_long", "%s", text).WithHint("set LATTICE_HOME to a shorter path")
	case errors.Is(err, syscall.EROFS):
		return fault.Denied(CodeReadOnly, "%s", text).WithHint("%s", elsewhere)
	case errors.Is(err, os.ErrPermission):
		return fault.Denied("home_unwritable", "%s", text).WithHint("%s", elsewhere)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Limit("disk_full", "%s", text).WithHint("free some space, or set LATTICE_HOME to a directory on another disk")
	case errors.Is(err, os.ErrNotExist):
		return fault.NotFound("home_missing", "%s", text).WithHint("%s", elsewhere)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// ErrLed means that another process leads this home.
var ErrLed = errors.New("another lattice leads here")

// Lock is the leadership of a home; it ends with the process or with Unlock.
type Lock struct{ file *os.File }

// Acquire takes the leadership, or fails with ErrLed.
func (h Home) Acquire() (*Lock, error) {
	if err := h.prepare(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(string(h), "lattice.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, homeProblem("open leader lock", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		f.Close()
		return nil, ErrLed
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("take leader lock: %w", err)
	}
	return &Lock{f}, nil
}

// Left waits until no process leads.
func (h Home) Left(ctx context.Context) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		lock, err := h.Acquire()
		if err == nil {
			return lock.Unlock()
		}
		if !errors.Is(err, ErrLed) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Unlock ends the leadership.
func (l *Lock) Unlock() error {
	if l == nil { // nothing can be locked where nothing can be written
		return nil
	}
	return l.file.Close()
}

// Artifacts holds copies of the files that a run declared, which outlive its sprite.
func (h Home) Artifacts(run string) string { return filepath.Join(string(h), "artifacts", run) }

// CodeReadOnly is the code of errors about a home on a file system that takes no writes.
const CodeReadOnly = "home_read_only"
