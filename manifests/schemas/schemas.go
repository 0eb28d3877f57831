// Package schemas holds the JSON Schemas for answers of models that come with lattice: ChoiceById, EmailDraft,
// ExtractedIntent, Label, Text. All are in the subset that the vendors' strict modes take.
package schemas

import (
	"embed"
	"encoding/json"
	"strings"
)

//go:embed *.json
var files embed.FS

// Builtin returns the schema of this name.
func Builtin(name string) (json.RawMessage, bool) {
	if strings.ContainsAny(name, `/\.`) {
		return nil, false
	}
	data, err := files.ReadFile(name + ".json")
	return data, err == nil
}

// Names lists them, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // not possible: the files are embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}
