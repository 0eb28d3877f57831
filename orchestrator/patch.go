package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/api"
)

// printPatch writes the content of a change. A terminal gets it coloured, page by page and with control characters
// spelt out; anything else gets it as it is, so that git apply can read it.
func (d *deps) printPatch(p api.Patch) error {
	if !d.terminal {
		if _, err := io.WriteString(d.out, p.Text); err != nil {
			return err
		}
	} else if err := d.page(colourPatch(p.Text, d.getenv("NO_COLOR") == "")); err != nil {
		return err
	}
	switch {
	case p.Cut:
		fmt.Fprintln(d.err, "the change is longer than what is shown")
	case p.Text == "" && p.Note == "":
		fmt.Fprintln(d.err, "no file differs in content")
	}
	if p.Note != "" {
		fmt.Fprintln(d.err, clean(p.Note))
	}
	return nil
}

// page shows text in the person's pager, or writes it when there is none.
func (d *deps) page(text string) error {
	pager := "less"
	for _, name := range []string{"LATTICE_PAGER", "PAGER"} {
		if v := d.getenv(name); v != "" {
			pager = v
			break
		}
	}
	if _, err := exec.LookPath(strings.Fields(pager + " x")[0]); err != nil || pager == "cat" {
		_, err := io.WriteString(d.out, text)
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", pager)
	cmd.Env = d.environ
	if d.getenv("LESS") == "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "LESS=FRX") // what fits a screen needs no key
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), d.out, d.err
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(d.err, "%s: %v\n", pager, err) // the person saw as much as they wanted, or sees this
	}
	return nil
}

// colourPatch colours the lines of a patch as git does, and spells out what a terminal would obey or hide.
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

// workingDir is the folder that a person stands in; "" when it is gone.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
