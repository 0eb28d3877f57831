//go:build !linux

package idrange

import (
	"errors"
)

// Range is the host's ids of one box; there are none here.
type Range struct{}

func Take(string) (*Range, error) { return nil, errors.ErrUnsupported }
func (r *Range) Release()         {}
