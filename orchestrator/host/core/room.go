package core

import (
	"fmt"
	"net/http"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// The default reserve of a disk is a twentieth of it, within these limits.
const (
	reservePart  = 20
	reserveLeast = 512 << 20 // bytes, but never more than a tenth of a small disk
	reserveMost  = 4 << 30   // bytes
	reserveSmall = 10
	reserveNodes = 100 // of the file system's inodes, one in so many
)

// Space is the free space of a file system.
type Space struct{ Bytes, TotalBytes, Nodes, TotalNodes uint64 }

// reservedBytes returns how many bytes are to stay free.
func (r Space) reservedBytes(reserve int64) uint64 {
	if reserve == 0 {
		return min(max(r.TotalBytes/reservePart, min(reserveLeast, r.TotalBytes/reserveSmall)), reserveMost)
	}
	return uint64(max(reserve, 0))
}

// Nearly and urgent say how close a disk is to being full, for the guard of those that run.
func (r Space) Nearly(reserve int64) bool { return r.Bytes < r.reservedBytes(reserve) }
func (r Space) Urgent(reserve int64) bool { return r.Bytes < r.reservedBytes(reserve)/4 }

// Less reports whether r has less left than before.
func (r Space) Less(before Space) bool { return r.Bytes < before.Bytes }

// Low says which resource is short, "" when there is enough. A file system without a fixed number of inodes says 0 of them.
func (r Space) Low(reserve int64) string {
	want := r.reservedBytes(reserve)
	switch {
	case r.Bytes < want:
		return fmt.Sprintf("%d MiB are free of which %d stay so", r.Bytes>>20, want>>20)
	case reserve >= 0 && r.TotalNodes > 0 && r.Nodes < r.TotalNodes/reserveNodes:
		return fmt.Sprintf("%d of %d inodes are free", r.Nodes, r.TotalNodes)
	}
	return ""
}

// isFull reports whether almost no space is left. It ignores the reserve of the configuration.
func (r Space) isFull() bool {
	const bytes, nodes = 64 << 10, 8
	return r.Bytes < bytes || r.TotalNodes > 0 && r.Nodes < nodes
}

// CheckSpace refuses calls that need space when little is left: a full disk affects every sprite.
func (c *Core) CheckSpace() error {
	r, err := FreeSpace(c.Config.Dir)
	if err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	if r.isFull() {
		// An empty layer may lie ready; but on top of another one not even a deletion would find room.
		return fmt.Errorf("the disk of %s: %w", c.Config.Dir, syscall.ENOSPC)
	}
	if why := r.Low(c.Config.Reserve); why != "" {
		return wire.Refuse(http.StatusInsufficientStorage, "disk_low",
			"the disk that holds the sprites is nearly full ("+why+"); remove sprites or checkpoints, or free space otherwise, and try again")
	}
	return nil
}
