//go:build !linux

package guest

import (
	"errors"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

func setUpNetwork(*channel.Socket) error {
	return spec.FailedAt("set up the network", errors.ErrUnsupported)
}
