//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

func takeFrom(*os.Process, []int) ([]*os.File, error) { return nil, errors.ErrUnsupported }
