package timeline

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/difference"
)

// PrintPatch writes the content of a change. A terminal gets it coloured, page by page and with control characters
// spelt out; anything else gets it as it is, so that git apply can read it.
func PrintPatch(console *cli.Console, p difference.Patch) error {
	if !console.Terminal {
		if _, err := io.WriteString(console.Out, p.Text); err != nil {
			return err
		}
	} else if err := console.Page(colourPatch(p.Text, console.Coloured())); err != nil {
		return err
	}
	switch {
	case p.Cut:
		fmt.Fprintln(console.Err, "the change is longer; only its beginning is shown")
	case p.Text == "" && p.Note == "":
		fmt.Fprintln(console.Err, "no file differs in content")
	}
	if p.Note != "" {
		fmt.Fprintln(console.Err, cli.Clean(p.Note))
	}
	return nil
}

// colourPatch colours the lines of a patch as git does, and spells out characters that a terminal would obey or hide.
func colourPatch(text string, colour bool) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		code := ""
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "index "):
			code = "1"
		case strings.HasPrefix(line, "@@"):
			code = "36"
		case strings.HasPrefix(line, "+"):
			code = "32"
		case strings.HasPrefix(line, "-"):
			code = "31"
		}
		if colour && code != "" {
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", code, spellOut(line))
		} else {
			b.WriteString(spellOut(line))
		}
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// spellOut makes characters visible that a terminal obeys, such as escape, or that turn the order of text around.
func spellOut(line string) string {
	var b bytes.Buffer
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<%02X>", line[i])
		case r == '\t':
			b.WriteByte('\t')
		case r < 0x20:
			b.WriteString("^" + string('@'+r))
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(line[i : i+size])
		}
		i += size
	}
	return b.String()
}
