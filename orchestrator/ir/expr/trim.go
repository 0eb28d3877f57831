package expr

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
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
			trims = append(trims, Trims(finding.ExtendPointer(path, strconv.Itoa(i)), b[i], a[i])...)
		}
	case map[string]any:
		a, _ := after.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(a)) {
			trims = append(trims, Trims(finding.ExtendPointer(path, k), b[k], a[k])...)
		}
	}
	return trims
}
