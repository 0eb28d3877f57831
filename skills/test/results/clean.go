package results

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Clean makes text safe to show: valid UTF-8, without escape sequences of terminals, without control characters but
// newline and tab, without the marks that turn the direction of writing.
func Clean(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 0x1b || r == escaped:
			size += escapeLen(text[i+size:])
		case r == '\r':
			if !strings.HasPrefix(text[i+1:], "\n") {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		default:
			b.WriteRune(r) // what is no UTF-8 comes as U+FFFD
		}
		i += size
	}
	return b.String()
}

func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// escaped stands for ESC where a format cannot hold it.
const escaped = '\u241b'

// escapeLen is how many bytes after ESC belong to the sequence: CSI ends with a letter, OSC with BEL or ESC \.
func escapeLen(rest string) int {
	if rest == "" {
		return 0
	}
	switch rest[0] {
	case '[':
		for i := 1; i < len(rest) && i < 64; i++ {
			if rest[i] >= 0x40 && rest[i] <= 0x7e {
				return i + 1
			}
		}
		return 1
	case ']':
		i := strings.IndexAny(rest[:min(len(rest), 4096)], "\x07\x1b")
		switch {
		case i < 0:
			return 1
		case strings.HasPrefix(rest[i:], "\x1b\\"):
			return i + 2
		}
		return i + 1
	}
	if rest[0] < utf8.RuneSelf {
		return 1
	}
	return 0
}

// cleanName cleans a name; it is one line.
func cleanName(text string) string {
	text = Clean(text)
	if strings.ContainsAny(text, "\n\t") {
		text = strings.Join(strings.Fields(text), " ")
	}
	if len(text) > maxName {
		const mark = "…"
		half := (maxName - len(mark)) / 2
		text = strings.ToValidUTF8(text[:half], "") + mark + strings.ToValidUTF8(text[len(text)-half:], "")
	}
	return text
}

// Clip cuts text to a number of bytes, keeping both ends.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "\n…\n"
	half := (limit - len(mark)) / 2
	return strings.ToValidUTF8(text[:half], "") + mark + strings.ToValidUTF8(text[len(text)-half:], "")
}

// Excerpt keeps the head and the tail of an output.
func Excerpt(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
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

// budget bounds what the outputs of all tests that have no verdict yet may hold together, in bytes.
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

// dropOutput empties an output that nobody asks for.
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
