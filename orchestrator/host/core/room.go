package core

import (
	"fmt"
	"net/http"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Of a disk, so much stays free unless the configuration says otherwise: a twentieth, or half a gigabyte where that is
// more; of a small disk a tenth at most.
const (
	reservePart  = 20
	reserveBytes = 512 << 20
	reserveMost  = 10
	reserveNodes = 100 // of the file system's inodes, one in so many
)

// Space is the free space of a file system.
type Space struct{ Bytes, TotalBytes, Nodes, TotalNodes uint64 }

// want is how many bytes are to stay free.
func (r Space) want(reserve int64) uint64 {
	if reserve == 0 {
		return max(r.TotalBytes/reservePart, min(reserveBytes, r.TotalBytes/reserveMost))
	}
	return uint64(max(reserve, 0))
}

// Nearly and urgent say how close a disk is to being full, for the guard of those that run.
func (r Space) Nearly(reserve int64) bool { return r.Bytes < r.want(reserve) }
func (r Space) Urgent(reserve int64) bool { return r.Bytes < r.want(reserve)/4 }

// Less reports whether r has less left than before.
func (r Space) Less(before Space) bool { return r.Bytes < before.Bytes }

// Low says which resource is short, "" when there is enough. A file system without a fixed number of inodes says 0 of them.
func (r Space) Low(reserve int64) string {
	want := r.want(reserve)
	switch {
	case r.Bytes < want:
		return fmt.Sprintf("%d MiB are free of which %d stay so", r.Bytes>>20, want>>20)
	case reserve >= 0 && r.TotalNodes > 0 && r.Nodes < r.TotalNodes/reserveNodes:
		return fmt.Sprintf("%d of %d inodes are free", r.Nodes, r.TotalNodes)
	}
	return ""
}

// full says that next to nothing is left, whatever the configuration wants to stay free.
func (r Space) full() bool {
	const bytes, nodes = 64 << 10, 8
	return r.Bytes < bytes || r.TotalNodes > 0 && r.Nodes < nodes
}

// CheckSpace refuses calls that need space when little is left: a full disk affects every sprite.
func (c *Core) CheckSpace() error {
	r, err := FreeSpace(c.Config.Dir)
	if err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	if r.full() {
		// An empty layer may lie ready; but on top of another one not even a deletion would find room.
		return fmt.Errorf("the disk of %s: %w", c.Config.Dir, syscall.ENOSPC)
	}
	if why := r.Low(c.Config.Reserve); why != "" {
		return wire.Refuse(http.StatusInsufficientStorage, "disk_low",
			"the disk that holds the sprites is nearly full ("+why+"); remove sprites or checkpoints, or free space otherwise, and try again")
	}
	return nil
}
