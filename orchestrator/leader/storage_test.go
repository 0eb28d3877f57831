package leader_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// What a store refuses has a code, an exit code and mostly a remedy; what is nobody's business here passes unchanged.
func TestStoreProblem(t *testing.T) {
	other := errors.New("something else")
	for name, tc := range map[string]struct {
		err  error
		code string
		exit int
	}{
		"newer":             {fmt.Errorf("open: %w", store.ErrNewer), "store_newer", 8},
		"damaged":           {fmt.Errorf("open: %w", store.ErrDamaged), "store_damaged", 1},
		"full":              {errors.Join(fmt.Errorf("commit: %w", store.ErrFull), other), "disk_full", 9},
		"full elsewhere":    {&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}, "disk_full", 9},
		"full over a wire":  {errors.New("write task.json: no space left on device"), "disk_full", 9},
		"over the quota":    {&fs.PathError{Op: "write", Path: "f", Err: syscall.EDQUOT}, "disk_full", 9},
		"in use":            {store.ErrLocked, "store_locked", 6},
		"no answer":         {store.ErrUnreachable, "store_unreachable", 5},
		"refused":           {store.ErrRefused, "store_refused", 4},
		"no address":        {store.ErrAddress, "store_address", 2},
		"no database":       {store.ErrMissing, "store_missing", 3},
		"not empty":         {store.ErrNotEmpty, "store_not_empty", 7},
		"not permitted":     {&fs.PathError{Op: "open", Path: "f", Err: syscall.EACCES}, "store_denied", 4},
		"a read-only disk":  {&fs.PathError{Op: "open", Path: "f", Err: syscall.EROFS}, "store_denied", 4},
		"known already":     {fault.New(3, "run_not_found", "no run"), "run_not_found", 3},
		"something unknown": {other, "", 0},
		"nothing":           {nil, "", 0},
	} {
		var p *fault.Error
		switch got := problem.StoreProblem(tc.err); {
		case tc.code == "" && got != tc.err:
			t.Errorf("%s: StoreProblem = %v, want it unchanged", name, got)
		case tc.code != "" && (!errors.As(got, &p) || p.Fault.Code != tc.code || p.Exit != tc.exit):
			t.Errorf("%s: StoreProblem = %#v, want %s and exit %d", name, got, tc.code, tc.exit)
		}
	}
}
