package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// While a command reads what a person named, the first signal ends it with 130: the read itself cannot be called off.
func TestSignalEndsReading(t *testing.T) {
	for _, line := range []string{
		"run -", "run human-approve --input-file -", "flow validate -", "flow validate FIFO", "flow graph FIFO", "flow compile -",
		"skill call fs.read --input @-", "skill call fs.read --input @FIFO", "skill validate -", "skill validate FIFO",
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(line+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				fifo := filepath.Join(t.TempDir(), "fifo")
				if err := syscall.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(lookLattice(t), strings.Fields(strings.ReplaceAll(line, "FIFO", fifo))...)
				cmd.Env = slices.Concat(os.Environ(), []string{"LATTICE_HOME=" + t.TempDir(), "LATTICE_CONFIG=", "XDG_CONFIG_HOME=" + t.TempDir()})
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				var to io.WriteCloser = stdin
				if strings.Contains(line, "FIFO") {
					if to, err = os.OpenFile(fifo, os.O_WRONLY, 0); err != nil {
						t.Fatal(err)
					}
				}
				defer to.Close()
				// More than a pipe holds: when all is written, the command reads, and waits for the rest.
				if _, err := to.Write(bytes.Repeat([]byte(" "), 128<<10)); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
					t.Errorf("lattice %s ended with %v, want 130", line, err)
				}
			})
		}
	}
}
