package cgroup

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// The first thread's groups are what a box that is made meanwhile takes for the process's.
func TestFirstThreadStaysInItsGroups(t *testing.T) {
	t.Parallel()
	var all errgroup.Group
	for range 2000 {
		all.Go(func() error {
			return onOtherThread(func() error {
				if unix.Gettid() == os.Getpid() {
					return errors.New("the first thread goes")
				}
				return nil
			})
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}
