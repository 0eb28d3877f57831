// Package cli holds the parts of commands that face people, scripts and shells: the console with its
// terminal, pager and JSON, errors and their exit codes, and sanitizing of text from sprites.
//
// Begin with Console. The package knows neither the leader nor sprites.
package cli

import (
	"io"
)

// Console is the side of a command that faces people and scripts: its streams, and how it speaks over them.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // out and err are terminals: live progress and colour
	JSON     bool // --json
	Getenv   func(string) string
	Environ  []string

	Exit     func(code int)        // ends the process at once
	Explain  func(err error) error // adds a remedy to errors of the machine, such as a full disk
	Deadline *Deadline             // of the process, after a signal
}

// Coloured reports whether text for people is coloured: on a terminal, unless NO_COLOR is set (no-color.org).
func (c *Console) Coloured() bool { return c.Terminal && c.Getenv("NO_COLOR") == "" }
