package cli

import (
	"encoding/json"
	"fmt"
	"io"
)

// PrintIndented prints a JSON document for reading.
func (c *Console) PrintIndented(doc any) error {
	enc := NewEncoder(c.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// PrintJSON prints one compact JSON value a line.
func (c *Console) PrintJSON(v any) error {
	return NewEncoder(c.Out).Encode(v)
}

// PrintResult prints v as JSON with --json, else a line for people, formatted as by fmt.Printf.
func (c *Console) PrintResult(v any, format string, args ...any) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// NewEncoder returns an encoder of JSON for people and machines: the values are the same, but cannot control a terminal.
func NewEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(Escape(w))
	enc.SetEscapeHTML(false)
	return enc
}

// Escape returns a writer of JSON to w.
func Escape(w io.Writer) io.Writer { return escaper{w} }

// escaper writes the characters that control a terminal as escapes of JSON. JSON escapes the control characters of ASCII by
// itself; there remain U+007F to U+009F and those that turn the direction of text.
type escaper struct{ w io.Writer }

func (e escaper) Write(p []byte) (int, error) {
	if _, err := io.WriteString(e.w, Harmless(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
