package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// reconcile merges an outbox of so many events with a stream that saw them all, once: the figure that counts is memory.
func reconcile(ctx context.Context, dir string, events int) ([]figure, error) {
	outbox, stream := filepath.Join(dir, "outbox.jsonl"), filepath.Join(dir, "events.txt")
	for path, prefix := range map[string]string{outbox: "", stream: "LATTICE_EVENT "} {
		if err := writeEvents(path, prefix, events); err != nil {
			return nil, err
		}
		defer os.Remove(path)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "lattice"), "protocol", "reconcile", "--outbox", outbox, "--stream", stream)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	what := fmt.Sprintf("reconcile 2 × %d events", events)
	figures := []figure{{Name: what, Value: 2 * float64(events) / took, Unit: "events/s"}}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak := float64(usage.Maxrss)
		if runtime.GOOS == "linux" { // KiB there, bytes elsewhere
			peak *= 1024
		}
		figures = append(figures, figure{Name: what + ", peak memory", Value: peak / (1 << 20), Unit: "MiB"})
	}
	return figures, nil
}

// writeEvents writes one event a line, a microsecond after the other.
func writeEvents(path, prefix string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		at = at.Add(time.Microsecond)
		fmt.Fprintf(w, `%s{"protocol_version":"v1","event_type":"INFO","event_id":"01KE%022d","call_id":"call_abcdefghijklmnop",`+
			`"sprite_id":"main","work_item_id":"issue-7","timestamp":"%s","payload":{"message":"step %d of the work","kind":"progress"}}`+"\n",
			prefix, i, at.Format("2006-01-02T15:04:05.000000000Z"), i)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
