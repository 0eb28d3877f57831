//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

// group is nothing here: other systems have no control groups.
type group struct{}

func newGroup() *group { return new(group) }

func (g *group) limit(Config) {}

func (g *group) resize(Limits) error { return errors.ErrUnsupported }

func (g *group) keeps(Defence) bool { return false }

func (g *group) thaw() {}

// groupDir is what group.freezer never gives.
type groupDir struct{}

func (g *group) freezer() (d groupDir, ok bool) { return d, false }

func (groupDir) freeze(context.Context, <-chan struct{}) error { return errors.ErrUnsupported }

func (groupDir) thaw() error { return errors.ErrUnsupported }

func (g *group) remove() error { return nil }

// Sweep has nothing to remove here.
func Sweep() error { return nil }

func countsPerNamespace() bool { return false }

// machineMemory is not asked for here: nothing could keep a limit of it.
func machineMemory() int64 { return 0 }
