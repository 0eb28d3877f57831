package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// PrintTable prints items as one JSON array, or for people as a table below header, whose columns tabs separate. The function
// cells returns the cells of an item. PrintTable removes control characters from them, and cuts lines that are wider
// than the terminal.
func PrintTable[T any](c *Console, items []T, header string, cells func(T) []any) error {
	if c.JSON {
		return c.PrintJSON(append([]T{}, items...)) // never null
	}
	var rows [][]any
	for _, item := range items {
		rows = append(rows, cells(item))
	}
	for _, line := range FormatTable(header, rows) {
		if c.Terminal {
			line = Cut(line, TerminalWidth(c.Out))
		}
		if _, err := fmt.Fprintln(c.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// FormatTable returns the lines of a table. It removes control characters from the cells.
func FormatTable(header string, rows [][]any) []string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, cells := range rows {
		var row []string
		for _, cell := range cells {
			row = append(row, Clean(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // it writes to a builder
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}
