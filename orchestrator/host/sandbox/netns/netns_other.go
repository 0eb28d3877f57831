//go:build !linux

package netns

import (
	"errors"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// SetUp is not supported here.
func SetUp(*channel.Socket) error {
	return spec.FailedAt("set up the network", errors.ErrUnsupported)
}
