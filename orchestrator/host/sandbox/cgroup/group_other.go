//go:build !linux

package cgroup

import (
	"context"
	"errors"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Group is nothing here: other systems have no control groups.
type Group struct{}

func New() *Group { return new(Group) }

func (g *Group) Limit(spec.Config) {}

func (g *Group) Resize(spec.Limits) error { return errors.ErrUnsupported }

func (g *Group) Used(spec.Defence) float64 { return 0 }

func (g *Group) Keeps(spec.Defence) bool { return false }

func (g *Group) Thaw() {}

// groupDir is never made here.
type groupDir struct{}

func (g *Group) Freezer() (d groupDir, ok bool) { return d, false }

func (groupDir) Freeze(context.Context, <-chan struct{}) error { return errors.ErrUnsupported }

func (groupDir) Thaw() error { return errors.ErrUnsupported }

func (g *Group) Remove() error { return nil }

// Sweep has nothing to remove here.
func Sweep() error { return nil }
