//go:build !linux

package sandbox

import (
	"errors"
)

// TryOwnIDs says that boxes cannot have Config.OwnIDs on this system.
func TryOwnIDs(string, string) error { return errors.ErrUnsupported }
