package board

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

const leaseSuffix = ".lease"

// Lease is held by the one process of this machine that does some long work. Others see by it that this process lives: the system ends
// the lease when the process dies, whatever becomes of its number.
type Lease struct {
	board *Board
	file  *os.File
	name  string
}

// Lease takes a new lease.
func (b *Board) Lease(name string) (*Lease, error) {
	if err := b.root.MkdirAll(locksDir, 0o755); err != nil {
		return nil, err
	}
	l, err := b.lockLease(name, os.O_CREATE)
	if err == nil && l == nil {
		err = fmt.Errorf("another process holds the lease %s", name)
	}
	return l, err
}

// TakeLost takes over a lease whose holder died without an end. It returns nil if the holder lives, or if there is no such lease on
// this machine.
func (b *Board) TakeLost(name string) (*Lease, error) {
	l, err := b.lockLease(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l, err
}

// LostLeases returns the names of the leases whose holders died without an end.
func (b *Board) LostLeases() (lost []string, err error) {
	entries, err := fs.ReadDir(b.root.FS(), locksDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the leases: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), leaseSuffix)
		if !ok {
			continue
		}
		l, err := b.TakeLost(name)
		if err != nil {
			return nil, err
		}
		if l != nil {
			if err := l.Leave(); err != nil {
				return nil, err
			}
			lost = append(lost, name)
		}
	}
	return lost, nil
}

func (b *Board) lockLease(name string, flags int) (*Lease, error) {
	l := &Lease{board: b, name: path.Join(locksDir, name+leaseSuffix)}
	var err error
	if l.file, err = b.root.OpenFile(l.name, os.O_RDWR|flags, 0o644); err != nil {
		return nil, err
	}
	err = syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, l.file.Close())
}

// End ends the lease: the work is done.
func (l *Lease) End() error { return errors.Join(l.board.RemoveFile(l.name), l.file.Close()) }

// Leave gives up the lease and lets others find it lost.
func (l *Lease) Leave() error { return l.file.Close() }
