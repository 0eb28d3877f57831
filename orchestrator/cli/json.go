package cli

import (
	"encoding/json"
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

// NewEncoder writes JSON for people and machines: values stay the same, and a terminal does nothing of what is in them.
func NewEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(Escape(w))
	enc.SetEscapeHTML(false)
	return enc
}

// Escape returns a writer of JSON to w.
func Escape(w io.Writer) io.Writer { return escaper{w} }

// escaper writes what a terminal would act on as JSON's own escapes. JSON escapes the control characters of ASCII by
// itself; there remain U+007F to U+009F and those that turn the direction of text.
type escaper struct{ w io.Writer }

func (e escaper) Write(p []byte) (int, error) {
	if _, err := io.WriteString(e.w, Harmless(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
