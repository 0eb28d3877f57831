package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/spritekit/lattice/spritekit/text"
)

// TerminalWidth returns the columns of a terminal, 100 if w is not a terminal.
func TerminalWidth(w io.Writer) int {
	width, _ := TerminalSize(w)
	return width
}

// TerminalSize returns the columns and lines of a terminal, 100 and 40 if w is not a terminal.
func TerminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 20 && height > 4 {
			return width, height
		}
	}
	return 100, 40
}

// Cut shortens a line to width columns, not counting colour.
func Cut(line string, width int) string {
	var b strings.Builder
	columns, escape, last := 0, false, 0 // last is the offset of the character in the last column
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			if columns++; columns == width {
				last = b.Len()
			}
			if columns > width {
				return b.String()[:last] + "…\x1b[0m"
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Clean makes text from a sprite safe for one line of a terminal, and short.
func Clean(s string) string {
	return text.HeadRunes(CleanLine(s), 300)
}

// CleanLine is clean for text whose length is bounded elsewhere, and whose end counts.
func CleanLine(s string) string { return text.Line(s) }

// Sanitize returns a writer to w for text that a sprite may have chosen.
func Sanitize(w io.Writer) io.Writer { return sanitizer{w} }

// sanitizer drops control characters from text for a terminal, line ends and tabs excepted: those of one byte, those that
// UTF-8 writes in two, of which some terminals take U+009B for the beginning of a sequence, and their halves.
type sanitizer struct{ w io.Writer }

func (s sanitizer) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		char := rest[:size]
		rest = rest[size:]
		switch {
		case r == '\n' || r == '\t':
		case r == utf8.RuneError && size == 1 && char[0] <= 0x9f: // of nothing, or cut off by the end of the piece before
			continue
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			continue
		}
		out = append(out, char...)
	}
	if _, err := s.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func Age(t time.Time) string {
	switch d := max(0, time.Since(t)); { // a clock may have been set back
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// FormatBytes is a size for people.
func FormatBytes(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/(1<<10), 0
	for size >= 1<<10-0.05 && unit < len(units)-1 {
		size, unit = size/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}

// FormatSize is FormatBytes for an amount without a sign.
func FormatSize(n uint64) string { return FormatBytes(int64(n)) }

// isControl reports whether a terminal may act on a character or show nothing for it; line ends and tabs are wanted.
func isControl(r rune) bool {
	return r != '\n' && r != '\t' && text.IsHidden(r)
}

// Harmless writes the characters that control a terminal, and invisible ones, as escapes of JSON; the JSON value stays the same.
func Harmless(json string) string {
	if !strings.ContainsFunc(json, isControl) {
		return json
	}
	var b strings.Builder
	for _, r := range json {
		if !isControl(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Count is a number of things, in words: 1 run, 2 runs.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
