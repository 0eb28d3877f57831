package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// testSyncedBeforeTold checks the order of emission (DESIGN 8): when a process writes a durable event or the result of a
// call that writes to stdout, everything that it wrote to its outbox and to files of the workspace is synced. The end of a
// call in the call journal may follow: the outbox has the result.
func testSyncedBeforeTold(t *testing.T, bin string) {
	const write = `{"path":"b","content":"x"}`
	for _, tt := range []struct {
		name  string
		skill string // "" runs args
		args  []string
		input string
		tells string // a text of the line that must not come early
	}{
		{"emit WAITING", "", []string{"emit", "WAITING", "reason=r", "checkpoint_id=v1"}, "", `"event_type":"WAITING"`},
		{"emit INFO", "", []string{"emit", "INFO", "message=m"}, "", `"event_type":"INFO"`},
		{"emit ARTIFACT", "", []string{"emit", "ARTIFACT", "kind=report"}, "", `"event_type":"ARTIFACT"`},
		{"emit COMPLETED", "", []string{"emit", "COMPLETED", "status=success"}, "", `"event_type":"COMPLETED"`},
		{"result of fs.write", "fs.write", nil, write, `"ok":true`},
		{"result of a call that fails", "fs.write", nil, `{"path":"a","content":"x","mode":"create"}`, `"ok":false`},
		{"action of notify.user", "notify.user", nil, `{"level":"info","title":"t","body":"b"}`, `"event_type":"ACTION_REQUEST"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.skill
			if name == "" {
				name = "spritekit"
			}
			cmd := place(t, bin, name, tt.input, "LATTICE_CALL_ID=call_synced")
			cmd.Args = append(cmd.Args[:1], tt.args...)
			unsynced, told, syncs := map[string]bool{}, false, 0
			trace := traceUntil(t, cmd, func(thread int, regs syscall.PtraceRegs) bool {
				file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, regs.Rdi))
				durable := strings.Contains(file, "/ws/") && !strings.Contains(file, "/"+protocol.Dir+"/calls/")
				switch regs.Orig_rax {
				case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
					if durable {
						unsynced[file] = true
					}
					if filepath.Base(file) != "out" || !bytes.Contains(memory(t, thread, regs.Rsi, regs.Rdx), []byte(tt.tells)) {
						return false
					}
					told = true
					if tt.name != "emit INFO" && len(unsynced) > 0 { // INFO may be synced last
						t.Errorf("%s was told while %v was not synced", tt.tells, unsynced)
					}
				case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
					if durable {
						syncs++
					}
					delete(unsynced, file)
				}
				return false
			})
			if len(unsynced) > 0 {
				t.Errorf("the process ended while %v was not synced", unsynced)
			}
			if !told || syncs == 0 {
				out, _ := os.ReadFile(filepath.Join(cmd.Dir, "out"))
				t.Errorf("told %v, %d syncs, exit %d; want the line to be told and a sync before:\n%s", told, syncs, trace.exit, out)
			}
		})
	}
}

// memory reads size bytes, at most 1 MiB, of a traced thread that stands still.
func memory(t *testing.T, thread int, address, size uint64) []byte {
	t.Helper()
	data := make([]byte, min(size, 1<<20))
	if _, err := syscall.PtracePeekData(thread, uintptr(address), data); err != nil {
		t.Fatalf("read the memory of the traced process: %v", err)
	}
	return data
}
