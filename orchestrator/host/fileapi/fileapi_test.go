package fileapi

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// A list of files ends when it has as many entries, or bytes, as one answer may have.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int
		strict bool
		bytes  int64
		rel    string
		err    error
	}{
		"few":            {10, true, 1 << 20, "a", nil},
		"too many":       {9, true, 1 << 20, "a", syscall.EFBIG},
		"enough of them": {9, false, 1 << 20, "a", nil},
		"long names":     {10, true, 4 << 10, strings.Repeat("\x01", 4<<10), wire.ErrLongAnswer},
	} {
		kept := &wire.Spool{Dir: t.TempDir(), Most: c.bytes}
		count, err := collectEntries(kept, "entries", c.most, c.strict, func(e files.Entry) any { return fileInfo("/", e) }, func(emit files.Emit) error {
			for range 10 {
				if err := emit(files.Entry{Rel: c.rel, ModTime: time.Unix(1, 0)}); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, c.err) || err == nil && count != 10 {
			t.Errorf("%s: %d, %v, want %v", name, count, err, c.err)
		}
		kept.Close()
	}
}
