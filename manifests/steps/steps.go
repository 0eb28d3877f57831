// Package steps holds the rules by which steps of plans become nodes of ExecIR, one file for each type of step. Start with
// Builtin; what a rule is, orchestrator/compile says, which reads them. Other rules may lie in any folder and are read in
// the same way. The package does nothing but hand out the files.
package steps

import (
	"embed"
	"strings"
)

//go:embed *.json
var files embed.FS

// Builtin returns the rules that come with lattice, by the type of step that each is for.
func Builtin() map[string][]byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // not possible: the files are embedded
	}
	rules := make(map[string][]byte, len(entries))
	for _, e := range entries {
		if data, err := files.ReadFile(e.Name()); err == nil {
			rules[strings.TrimSuffix(e.Name(), ".json")] = data
		}
	}
	return rules
}
