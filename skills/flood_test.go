package skills

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// flood is how much a child prints. A soak gives -flood 1073741824.
var flood = flag.Int64("flood", 68_000_000, "bytes that a child prints; more than a transcript takes")

// However much a child prints, the process of the skill stays small, the transcript is capped, and the result tells how
// much there was.
func TestFloodOfOutput(t *testing.T) {
	const (
		transcript = 64 << 20
		maxMemory  = 96 << 10 // KiB, resident; the test binary alone takes a third of it
	)
	for _, tc := range []struct {
		skill, input, log string
		omitted           func(data map[string]any) float64
	}{
		{"test.run", `{"command":"%s","timeout_s":600}`, "log_path", func(data map[string]any) float64 {
			return data["truncated"].(map[string]any)["bytes_omitted"].(float64)
		}},
		{"agent.run", `{"command":"%s","timeout_s":600}`, "transcript_path", func(data map[string]any) float64 {
			if data["truncated"] != true {
				return 0
			}
			return data["output_bytes"].(float64) - transcript
		}},
	} {
		for form, text := range map[string]string{"lines": "a line of what tests print", "one line": ""} {
			t.Run(tc.skill+" "+form, func(t *testing.T) {
				s := newSprite(t)
				command := fmt.Sprintf("yes '%s' | head -c %d; echo; echo the end", text, *flood)
				if text == "" {
					command = fmt.Sprintf("head -c %d /dev/zero; echo; echo the end", *flood)
				}
				s.nested(tc.skill)
				cmd := exec.Command(filepath.Join(s.dir, tc.skill))
				status := filepath.Join(t.TempDir(), "status")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LATTICE_WORKSPACE=" + s.dir, "LATTICE_SOCKET=", peakEnv + "=" + status}
				cmd.Stdin = strings.NewReader(fmt.Sprintf(tc.input, command))
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%.2000s", err, out)
				}
				if used := peakMemory(t, status); used > maxMemory {
					t.Errorf("%d KiB of memory, want at most %d", used, maxMemory)
				}
				if len(out) > 64<<10 {
					t.Errorf("%d bytes on stdout", len(out))
				}
				last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]
				result, ok := protocol.DecodeResult(bytes.TrimSpace(last))
				var data map[string]any
				if !ok || json.Unmarshal(result.Data, &data) != nil {
					t.Fatalf("the last line is %.500q", last)
				}
				const end = "\nthe end\n"
				if got, want := tc.omitted(data), float64(*flood+int64(len(end))-transcript); got != want {
					t.Errorf("%v bytes omitted, want %v: %s", got, want, last)
				}
				info, err := os.Stat(filepath.Join(s.dir, data[tc.log].(string)))
				if err != nil || info.Size() != transcript {
					t.Errorf("transcript %v, %v; want %d bytes", info, err, transcript)
				}
				if text, ok := data["final_text"].(string); ok && !strings.HasSuffix(text, end) {
					t.Errorf("final_text does not end in the end: %.100q", text)
				}
			})
		}
	}
}

// peakEnv names the file to which a skill of this test binary writes its status in proc before it ends. The peak that the kernel
// reports to the parent is of no use: it begins with the memory of the parent itself.
const peakEnv = "LATTICE_TEST_STATUS"

// peakMemory returns the largest resident memory in KiB, 0 where the system does not tell.
func peakMemory(t *testing.T, status string) (peak int64) {
	t.Helper()
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	if _, after, ok := strings.Cut(string(text), "VmHWM:"); ok {
		if _, err := fmt.Sscan(after, &peak); err != nil {
			t.Fatal(err)
		}
	}
	return peak
}
