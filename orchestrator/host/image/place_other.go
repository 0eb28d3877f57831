//go:build !linux

package image

import (
	"os"
	"time"
)

// Sprites start from images on Linux only. Elsewhere images can be built and listed, so the unpacked tree need not be
// complete.

func makeFIFO(*os.Root, string) error {
	return refuseImage("it is a FIFO, which is unpacked on Linux only")
}

func linkTime(*os.Root, string, time.Time) error { return nil }

func setAttr(*os.Root, string, string, string) (bool, error) { return false, nil }

func attrsOf(*os.File) (map[string]string, error) { return nil, nil }
