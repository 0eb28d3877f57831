//go:build !linux

package sandbox

import (
	"errors"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Show cannot be done here: boxes have no mounts.
func (b *Box) Show(spec.Point) error { return errors.ErrUnsupported }

// Hide cannot be done here either.
func (b *Box) Hide(string) error { return errors.ErrUnsupported }
