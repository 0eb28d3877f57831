package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// changing are the system calls after which the files are not what they were; that a file was made shows before the next.
var changing = []uint64{
	syscall.SYS_WRITE, syscall.SYS_MKDIRAT, syscall.SYS_RENAMEAT, syscall.SYS_UNLINKAT, syscall.SYS_FTRUNCATE, syscall.SYS_FCHMOD, syscall.SYS_EXIT_GROUP,
}

// testKilled kills a call before each of its system calls that change anything, and makes it again: it ends well, its
// file is whole, it has one result, each event once, and nothing temporary is left.
func testKilled(t *testing.T, bin string) {
	const content = "some content"
	kills := 0
	for last := false; !last; kills++ {
		cmd := place(t, bin, "fs.write", `{"path":"b","content":"`+content+`"}`, "LATTICE_CALL_ID=c1")
		ws := filepath.Join(cmd.Dir, "ws")
		n := 0
		first := traceUntil(t, cmd, func(_ int, regs syscall.PtraceRegs) bool {
			nr := regs.Orig_rax
			if slices.Contains(changing, nr) {
				n++
			}
			return n > kills
		})
		last = first.exit == 0
		if now, err := os.ReadFile(filepath.Join(ws, "b")); err == nil && string(now) != content {
			t.Errorf("killed before change %d: the file holds %q", kills, now)
		}
		again := reopen(t, cmd, cmd.Dir)
		if err := again.Run(); err != nil {
			out, _ := os.ReadFile(filepath.Join(cmd.Dir, "out"))
			t.Fatalf("killed before change %d, then: %v\n%s", kills, err, out)
		}
		if now, err := os.ReadFile(filepath.Join(ws, "b")); err != nil || string(now) != content {
			t.Errorf("killed before change %d, then: the file holds %q, %v", kills, now, err)
		}
		// The next call sweeps what the killed one left.
		next := reopen(t, cmd, cmd.Dir)
		next.Env = append(next.Env, "LATTICE_CALL_ID=c2")
		if err := next.Run(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(ws, protocol.Dir, "tmp", "*")); err != nil || len(left) > 0 {
			t.Errorf("killed before change %d: %v is left", kills, left)
		}
		if visible, err := filepath.Glob(filepath.Join(ws, "*")); err != nil || len(visible) != 3 { // .lattice, a, b
			t.Errorf("killed before change %d: the workspace shows %v", kills, visible)
		}
		checkRecords(t, ws, kills)
	}
	t.Logf("killed at %d places", kills-1)
	if kills < 10 {
		t.Errorf("a call changes something more than %d times", kills)
	}
}

// checkRecords wants one result of call c1, and whole lines only.
func checkRecords(t *testing.T, ws string, kills int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(ws, protocol.OutboxFile))
	if err != nil {
		t.Fatal(err)
	}
	results, ids := 0, map[string]bool{}
	for line := range bytes.Lines(data) {
		e, problems, ok := protocol.Decode(line)
		if !ok || len(problems) > 0 || ids[e.EventID] {
			t.Errorf("killed before change %d: the outbox has %s: %v", kills, line, problems)
		}
		ids[e.EventID] = true
		var info protocol.Info
		if e.CallID == "c1" && e.Type == protocol.TypeInfo && json.Unmarshal(e.Payload, &info) == nil && info.Kind == "result" {
			results++
		}
	}
	if results != 1 {
		t.Errorf("killed before change %d: the outbox has %d results of one call", kills, results)
	}
}
