package history

import (
	"path/filepath"
	"testing"
)

// A log that cannot be written is no reason to fail the call that prints.
func TestRunLogDrops(t *testing.T) {
	wrote := 0
	log := &cappedLog{path: filepath.Join(t.TempDir(), "none", "output.log"), wrote: func() { wrote++ }}
	if n, err := log.Write([]byte("lost\n")); n != 5 || err != nil || wrote != 0 {
		t.Errorf("Write = %d, %v, %d notices", n, err, wrote)
	}
}
