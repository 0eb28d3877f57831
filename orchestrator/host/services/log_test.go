package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadTail checks that the last lines of a log, of any length, are found without reading the whole log.
func TestReadTail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length int // of a line
		lines  int // that were written
		asked  int
		want   int
	}{
		"nothing was written": {10, 0, 5, 0},
		"none is asked for":   {10, 5, 0, 0},
		"fewer than asked":    {10, 5, 9, 5},
		"the last one":        {10, 1000, 1, 1},
		"some long ones":      {maxLogLine, 40, 7, 7},
		"from both files":     {maxLogLine, 300, 290, 290},
	} {
		l := newServiceLog(filepath.Join(t.TempDir(), "s.log"), time.Now)
		for i := range c.lines {
			text := fmt.Sprintf("%d ", i)
			l.addOutput("stdout", [][]byte{[]byte(text + strings.Repeat("x", c.length-len(text)-1) + "\n")})
		}
		l.close()
		events, _, err := l.readTail(c.asked)
		if err != nil || len(events) != c.want {
			t.Errorf("%s: %d lines, %v, want %d", name, len(events), err, c.want)
			continue
		}
		for i, e := range events {
			if n := c.lines - c.want + i; !strings.HasPrefix(e.Data, fmt.Sprintf("%d x", n)) || len(e.Data) != c.length || e.Type != "stdout" {
				t.Errorf("%s: line %d is %s %.20q of %d bytes", name, n, e.Type, e.Data, len(e.Data))
			}
		}
		if info, err := os.Stat(l.path); err == nil {
			if part, err := readLog(l.path, 100); err != nil || int64(len(part)) != min(100, info.Size()) {
				t.Errorf("%s: of 100 bytes that are enough, %d are read, %v", name, len(part), err)
			}
		}
	}
}
