package leader

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
)

// Home is a state directory ($LATTICE_HOME) and where things lie in it.
type Home string

// Store is the bbolt file with all runs.
func (h Home) Store() string { return filepath.Join(string(h), "runs.db") }

// Sprites is the embedded host's directory.
func (h Home) Sprites() string { return filepath.Join(string(h), "sprites") }

// Bundles holds verified copies of what sprites asked to push, by content.
func (h Home) Bundles() string { return filepath.Join(string(h), "bundles") }

// Scratch holds temporary repositories; it is wiped by the next leader.
func (h Home) Scratch() string { return filepath.Join(string(h), "scratch") }

// Mirrors holds what was fetched of repositories that runs name by URL; it is a cache.
func (h Home) Mirrors() string { return filepath.Join(string(h), "mirrors") }

// Run is a run's own directory: its repository bundle and its log.
func (h Home) Run(id string) string { return filepath.Join(string(h), "runs", id) }

// Logs holds what leaders in the background logged.
func (h Home) Logs() string { return filepath.Join(string(h), "logs") }

// Skills is where the spritekit with this digest is installed.
func (h Home) Skills(digest string) string { return filepath.Join(string(h), "skills", digest) }

// maxSocketPath is the longest path that a unix socket address holds, with room for its end.
const maxSocketPath = 100

// Socket is where the leader listens. A path that is too long for a socket address is replaced by one in the user's
// own directory below the system's temporary one.
func (h Home) Socket() string {
	path := filepath.Join(string(h), "lattice.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(h))
	return filepath.Join(shortDir(), hex.EncodeToString(sum[:12])+".sock")
}

func shortDir() string { return "/tmp/lattice-" + strconv.Itoa(os.Getuid()) }

// prepare makes the directory, for its owner alone.
func (h Home) prepare() error {
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return fmt.Errorf("make state directory: %w; set LATTICE_HOME to a directory that you may write", err)
	}
	if !strings.HasPrefix(h.Socket(), shortDir()+"/") {
		return nil
	}
	if err := os.Mkdir(shortDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make socket directory: %w", err)
	}
	info, err := os.Lstat(shortDir())
	if err != nil {
		return fmt.Errorf("make socket directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s belongs to somebody else or is open to others; set LATTICE_HOME to a shorter path", shortDir())
	}
	return nil
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
		return nil, fmt.Errorf("open leader lock: %w", err)
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

// Left waits until nobody leads.
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

// Unlock gives the leadership up.
func (l *Lock) Unlock() error { return l.file.Close() }
