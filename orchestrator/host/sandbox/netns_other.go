//go:build !linux

package sandbox

import "errors"

func setUpNetwork(*channel) error { return failedAt("set up the network", errors.ErrUnsupported) }
