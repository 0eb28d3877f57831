package expr

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/spritekit/text"
)

// Trim is one value of a prompt that was shortened.
type Trim struct {
	Path   string `json:"path"` // JSON pointer into the node's inputs
	Unit   string `json:"unit"` // items | chars
	Before int    `json:"before"`
	After  int    `json:"after"`
}

// Whole returns a value expression without the options that shorten its value: only {"ref": …} and its default.
func Whole(expression json.RawMessage) json.RawMessage {
	v, err := Decode(expression)
	object, ok := v.(map[string]any)
	if err != nil || !ok || OperatorOf(object) != "ref" {
		return expression
	}
	whole := map[string]any{"ref": object["ref"]}
	if fallback, ok := object["default"]; ok {
		whole["default"] = fallback
	}
	text, err := Marshal(whole)
	if err != nil {
		return expression
	}
	return text
}

// maxTrimPath is the length in bytes after which the path of a trim is not continued.
const maxTrimPath = 1000

// trimPath returns the path of a member or element of the value at path. A value can be at a path as long as itself, and have very
// many members there.
func trimPath(path, name string) string {
	if len(path) >= maxTrimPath {
		return path
	}
	return path + "/" + finding.EscapePointer(text.Cut(name, maxTrimPath))
}

// Trims lists the places where after is a shortened before. Members that were omitted by name do not count.
func Trims(path string, before, after any) (trims []Trim) {
	switch b := before.(type) {
	case string:
		if a, ok := after.(string); ok && a != b {
			trims = append(trims, Trim{path, "chars", len([]rune(b)), len([]rune(a))})
		}
	case []any:
		a, ok := after.([]any)
		if !ok {
			return nil
		}
		if len(a) < len(b) {
			return append(trims, Trim{path, "items", len(b), len(a)})
		}
		for i := range min(len(a), len(b)) {
			trims = append(trims, Trims(trimPath(path, strconv.Itoa(i)), b[i], a[i])...)
		}
	case map[string]any:
		a, _ := after.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(a)) {
			trims = append(trims, Trims(trimPath(path, k), b[k], a[k])...)
		}
	}
	return trims
}
