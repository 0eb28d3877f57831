package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEstimateRest checks estimates, which need two seconds of observed work.
func TestEstimateRest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		done, rest uint64
		elapsed    time.Duration
		want       string
	}{
		{0, 100, time.Minute, ""}, {50, 50, time.Second, ""}, {100, 0, time.Minute, ""},
		{25, 75, 10 * time.Second, ", about 30s left"}, {99, 1, 10 * time.Second, ", about 1s left"},
	} {
		if got := estimateRest(tt.done, tt.rest, tt.elapsed); got != tt.want {
			t.Errorf("after %d, with %d to go in %s: %q, want %q", tt.done, tt.rest, tt.elapsed, got, tt.want)
		}
	}
}

// A progress is one line that is replaced and removed, for people at a terminal alone.
func TestProgress(t *testing.T) {
	t.Parallel()
	show := func(c Console) string {
		var out strings.Builder
		c.Err = &out
		p := NewProgress(&c)
		for _, done := range []uint64{0, 1 << 20, 3 << 20} {
			p.Show("written", done, 3<<20, FormatSize)
		}
		p.Clear()
		p.Clear()
		return out.String()
	}
	steps := func(c Console) string {
		var out strings.Builder
		c.Err = &out
		p := NewProgress(&c)
		p.ShowStep("write\x1b to disk", 0, 0)
		p.ShowStep("sent", 2048, 2048)
		p.ShowPart("runs", 7, 7)
		return out.String()
	}
	const line = "\r\x1b[2K"
	if got, want := show(Console{Terminal: true}), line+"written: 0 bytes of 3.0 MiB (0%)"+line+"written: 3.0 MiB of 3.0 MiB (100%)"+line; got != want {
		t.Errorf("a terminal shows %q, want %q", got, want)
	}
	if got := steps(Console{Terminal: true}); !strings.HasPrefix(got, line+"now: write") || strings.Contains(got, "\x1b to") || !strings.HasSuffix(got, line+"sent: 2.0 KiB of 2.0 KiB (100%)"+line+"runs: 7 of 7 (100%)") {
		t.Errorf("a terminal shows the steps %q", got)
	}
	for name, c := range map[string]Console{"a pipe": {}, "--json": {Terminal: true, JSON: true}} {
		if got := show(c); got != "" {
			t.Errorf("%s shows %q", name, got)
		}
	}
}

// A wait says for how long it goes on, once that is worth a line.
func TestShowWait(t *testing.T) {
	t.Parallel()
	show := func(c Console, d time.Duration) string {
		var out strings.Builder
		c.Err = &out
		synctest.Test(t, func(*testing.T) {
			stop := c.ShowWait("fork")
			time.Sleep(d)
			stop()
		})
		return out.String()
	}
	const line = "\r\x1b[2K"
	for _, tt := range []struct {
		console Console
		wait    time.Duration
		want    string
	}{
		{Console{Terminal: true}, 1900 * time.Millisecond, ""},
		{Console{Terminal: true}, 3100 * time.Millisecond, line + "fork: 2s" + line + "fork: 3s" + line},
		{Console{}, time.Minute, ""}, {Console{Terminal: true, JSON: true}, time.Minute, ""},
	} {
		if got := show(tt.console, tt.wait); got != tt.want {
			t.Errorf("after %s: %q, want %q", tt.wait, got, tt.want)
		}
	}
}
