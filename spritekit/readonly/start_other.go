//go:build !linux

package readonly

// Start returns ErrUnavailable.
func Start([]string, func() error) error { return ErrUnavailable }
