//go:build !linux

package guest

import (
	"errors"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// listPorts cannot be told here: this system does not say which process holds a socket.
func (s *server) listPorts() ([]channel.Port, error) { return nil, errors.ErrUnsupported }
