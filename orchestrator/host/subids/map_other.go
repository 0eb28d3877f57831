//go:build !linux

package subids

import (
	"errors"
	"os/exec"
)

func findHelper(string) (string, error) { return "", errors.ErrUnsupported }

// MapBox, Start and Try need Linux.
func (Range) MapBox(int, int) error { return errors.ErrUnsupported }
func (Range) Start(*exec.Cmd) error { return errors.ErrUnsupported }
func (Range) Try() error            { return errors.ErrUnsupported }
