//go:build !linux

package layer

import (
	"context"
	"errors"
)

// btrfs exists on Linux only.
type btrfs struct{ cas }

func (btrfs) Kind() Kind { return Btrfs }

// OnBtrfs reports whether dir lies on btrfs.
func OnBtrfs(string) bool { return false }

func (btrfs) Make(string, int, int) error                 { return errors.ErrUnsupported }
func (btrfs) Clone(context.Context, string, string) error { return errors.ErrUnsupported }
