//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

// checkSocket leaves it to the runtime to say what is no socket.
func checkSocket(*os.File) error { return nil }

// ports cannot be told here: this system does not say which process holds a socket.
func (s *server) ports() ([]Port, error) { return nil, errors.ErrUnsupported }
