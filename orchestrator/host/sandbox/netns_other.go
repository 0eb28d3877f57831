//go:build !linux

package sandbox

import "errors"

func setUpNetwork(*channel) error { return &setupFailure{"set up the network", errors.ErrUnsupported} }
