//go:build !linux

package sandbox

import "errors"

// idRange is the host's ids of one box; there are none here.
type idRange struct{}

func takeRange(string) (*idRange, error) { return nil, errors.ErrUnsupported }
func (r *idRange) release()              {}
func holdOpen() error                    { return errors.ErrUnsupported }
