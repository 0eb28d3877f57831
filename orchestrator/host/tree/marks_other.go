//go:build !linux

package tree

import (
	"errors"
	"hash"
)

// marks stands for the attributes of overlays, which exist on Linux only.
type marks struct{}

func ownMarks() marks                          { return marks{} }
func (marks) isOpaque(folder) bool             { return false }
func (marks) findRedirect(folder) string       { return "" }
func (marks) setOpaque(folder) error           { return errors.ErrUnsupported }
func (marks) setRedirect(folder, string) error { return errors.ErrUnsupported }

func makeWhiteout(int, string) error { return errors.ErrUnsupported }

func attributesOf(hash.Hash, int) {}
