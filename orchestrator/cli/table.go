package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// PrintTable prints items as one JSON array, or for people as a table below header, whose columns tabs separate. The function
// cells returns the cells of an item. PrintTable removes from them what could control a terminal.
func PrintTable[T any](c *Console, items []T, header string, cells func(T) []any) error {
	if c.JSON {
		return c.PrintJSON(append([]T{}, items...)) // never null
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, item := range items {
		var row []string
		for _, cell := range cells(item) {
			row = append(row, Clean(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
