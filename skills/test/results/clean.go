package results

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/text"
)

// Clean makes the text of a report safe to show; see [text.Clean].
func Clean(s string) string { return text.Clean(s) }

// cleanName cleans a name; it is one line.
func cleanName(s string) string {
	s = Clean(s)
	if strings.ContainsAny(s, "\n\t") {
		s = strings.Join(strings.Fields(s), " ")
	}
	return text.Ends(s, "…", maxName)
}

// Clip shortens the text of a report to a number of bytes and keeps both ends.
func Clip(s string, limit int) string { return text.Ends(s, "\n…\n", limit) }

// Excerpt keeps the head and the tail of an output.
func Excerpt(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	if n := len(lines); n > MaxLines {
		half := MaxLines / 2
		cut := fmt.Sprintf("… %d lines left out …", n-2*half)
		lines = slices.Concat(lines[:half], []string{cut}, lines[n-half:])
	}
	return Clip(strings.Join(lines, "\n"), MaxDetail)
}

// output collects the lines of one test: the first and the last ones.
type output struct {
	lines []string
	size  int
}

// budget bounds the memory of the outputs of all tests that have no verdict yet, in bytes.
type budget struct{ used int }

const maxHeld = 16 << 20

// addLine takes a line in, unless too much is held already.
func (b *budget) addLine(o *output, line string) {
	if b.used+len(line) > maxHeld {
		return
	}
	before := o.size
	o.addLine(line)
	b.used += o.size - before
}

// dropOutput empties an output that is no longer needed.
func (b *budget) dropOutput(o *output) {
	b.used -= o.size
	*o = output{}
}

const (
	keptLines = 200
	keptLine  = 4 << 10
)

func (o *output) addLine(line string) {
	if len(line) > keptLine {
		line = strings.Clone(line[:keptLine])
	}
	o.lines = append(o.lines, line)
	o.size += len(line)
	if len(o.lines) > keptLines {
		o.size -= len(o.lines[keptLines/2])
		o.lines = slices.Delete(o.lines, keptLines/2, keptLines/2+1)
	}
}

func (o *output) joinLines() string { return strings.Join(o.lines, "\n") }
