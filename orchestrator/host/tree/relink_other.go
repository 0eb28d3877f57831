//go:build !linux

package tree

import "context"

// Relink does nothing: there are no overlays.
func Relink(context.Context, string, string, ...string) error { return nil }
