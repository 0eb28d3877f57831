//go:build !linux

package sandbox

import "errors"

// Show cannot be done here: boxes have no mounts.
func (b *Box) Show(Point) error { return errors.ErrUnsupported }

// Hide cannot be done here either.
func (b *Box) Hide(string) error { return errors.ErrUnsupported }
