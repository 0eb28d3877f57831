// Package tomlkey finds the lines on which the keys of a TOML text stand, so that an error about a value can name its line. Start with
// [Parse] and [Lines.Of].
package tomlkey

import (
	"fmt"
	"strings"
)

// Lines holds for each key the line on which it first stands, from 1. The tables of an array have the keys NAME[0], NAME[1], ….
type Lines map[string]int

// Parse finds the lines of a text that was decoded without an error. A value that spans several lines may hide a key.
func Parse(text string) Lines {
	lines, counts, table, n := Lines{}, map[string]int{}, "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		key := ""
		if name, ok := strings.CutPrefix(line, "[["); ok {
			name, _, _ = strings.Cut(name, "]")
			name = cleanKey(name)
			table = fmt.Sprintf("%s[%d]", name, counts[name])
			counts[name]++
			key = table
		} else if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			table = cleanKey(name)
			key = table
		} else if name, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			key = strings.TrimPrefix(table+"."+cleanKey(name), ".")
		}
		for ; key != ""; key = parentOf(key) {
			if _, known := lines[key]; !known {
				lines[key] = n
			}
		}
	}
	return lines
}

// Of returns the line of a key; of one that is missing, the line of its table. It returns 0 if the text has neither.
func (l Lines) Of(key string) int {
	for ; key != ""; key = parentOf(key) {
		if line := l[key]; line > 0 {
			return line
		}
	}
	return 0
}

// cleanKey returns a dotted key without quotes and spaces.
func cleanKey(key string) string {
	parts := strings.Split(key, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(p, " \t\"'")
	}
	return strings.Join(parts, ".")
}

func parentOf(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i]
	}
	return ""
}
