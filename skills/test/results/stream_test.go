package results_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/test/results"
)

// TestStreamsHoldLittle checks that a reader of a stream of any length keeps a bounded part of it.
func TestStreamsHoldLittle(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for _, tc := range []struct {
		name     string
		lines    int
		most     int64 // MiB that may be held
		make     func(*results.Set) results.Stream
		makeLine func(i int) string
	}{
		{
			"builds", 6_000, 20, func(s *results.Set) results.Stream { return results.NewGoTest(s, "", nil) },
			func(i int) string {
				return fmt.Sprintf(`{"Action":"build-output","ImportPath":"p%d","Output":"%s"}`, i, long)
			},
		},
		{
			"deep names", 300, 12, func(s *results.Set) results.Stream { return results.NewGoTest(s, "", nil) },
			func(i int) string {
				return fmt.Sprintf(`{"Action":"fail","Package":"p","Test":"T%d%s"}`, i, strings.Repeat("/a", 1900))
			},
		},
		{
			"long names of sections", 150, 1, func(s *results.Set) results.Stream {
				l := results.NewLibtest(s)
				l.Line("running 1 test")
				return l
			},
			func(i int) string { return fmt.Sprintf("---- %d%s stdout ----", i, strings.Repeat(long, 5)) },
		},
		{
			"long verdicts", 150, 1, func(s *results.Set) results.Stream { return results.NewMinitest(s) },
			func(i int) string { return fmt.Sprintf("A#%d%s = 0.00 s = .", i, strings.Repeat(long, 5)) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s results.Set
			stream := tc.make(&s)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range tc.lines {
				stream.Line(tc.makeLine(i))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > tc.most<<20 {
				t.Errorf("%d MiB are held", held>>20)
			}
			stream.Done()
			check(t, &s)
		})
	}
}
