package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A lease makes others wait whom its holder, hostile perhaps, does not let in: that is told, not waited out.
func TestLeasedFileIsNotWaitedFor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "leased"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	if _, _, err := OpenRegular(Kernel{}, f.Name()); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("OpenRegular = %v, want EAGAIN", err)
	}
}
