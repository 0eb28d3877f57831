package main

import (
	stdflag "flag" // flag is a function of this package
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// outboxLines is how long the outbox is. A soak gives -outbox-lines 1000000.
var outboxLines = stdflag.Int("outbox-lines", 20_000, "lines of the large outbox")

// testLargeOutbox: what a call or a command reads does not grow with the outbox, nor do its allocations, which would show
// as reads of nothing else. After a crash it is what was written since the call began.
func testLargeOutbox(t *testing.T, bin string) {
	const most = 64 << 10 // bytes read by a process, what the runtime of Go reads of the system included
	line := func(n int) string {
		return fmt.Sprintf(`{"protocol_version":"v1","event_type":"INFO","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-01T00:00:00.%09dZ","payload":{"message":"%s"}}`+"\n",
			n, strings.Repeat("x", 100))
	}
	payload := `{"work_item_id":"w","checkpoint_id":"v1","inputs":{},"context":{}}`
	for _, tc := range []struct {
		name, as string
		args     []string
		env      string
		crash    bool // the call was killed after its first record
		exit     int
	}{
		{"emit", "spritekit", []string{"emit", "INFO", "message=x"}, "", false, 0},
		{"resume show", "spritekit", []string{"resume", "show"}, "", false, 0},
		{"resume ack", "spritekit", []string{"resume", "ack"}, "", false, 0},
		{"fs.read", "fs.read", nil, "", false, 0},
		{"fs.read with a call id", "fs.read", nil, "LATTICE_CALL_ID=c1", false, 0},
		{"fs.write", "fs.write", nil, "LATTICE_CALL_ID=c1", false, 0},
		{"fs.write after a crash", "fs.write", nil, "LATTICE_CALL_ID=c1", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			input := map[string]string{"fs.read": `{"path":"a"}`, "fs.write": `{"path":"b","content":"x"}`}[tc.as]
			cmd := place(t, bin, tc.as, input, tc.env)
			ws := filepath.Join(cmd.Dir, "ws")
			outbox := filepath.Join(ws, protocol.OutboxFile)
			if err := os.MkdirAll(filepath.Dir(outbox), 0o755); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for n := range *outboxLines {
				b.WriteString(line(n))
			}
			for name, content := range map[string]string{protocol.OutboxFile: b.String(), protocol.ResumeFile: payload} {
				if err := os.WriteFile(filepath.Join(ws, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tc.crash {
				if first := trace(t, cmd); first.exit != 0 {
					t.Fatalf("the first call ends with %d", first.exit)
				}
				journal := filepath.Join(ws, protocol.CallsDir, "c1.jsonl")
				data, err := os.ReadFile(journal)
				if err != nil {
					t.Fatal(err)
				}
				started, _, _ := strings.Cut(string(data), "\n")
				if err := os.WriteFile(journal, []byte(started+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				cmd = reopen(t, cmd, cmd.Dir)
			}
			cmd.Args = append(cmd.Args[:1], tc.args...)
			got := trace(t, cmd)
			t.Logf("%d bytes read beside %d of outbox", got.read, b.Len())
			if got.exit != tc.exit || got.read > most {
				out, _ := os.ReadFile(filepath.Join(cmd.Dir, "out"))
				t.Errorf("exit %d, %d bytes read; want %d and at most %d\n%s", got.exit, got.read, tc.exit, most, out)
			}
		})
	}
}
