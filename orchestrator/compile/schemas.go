package compile

import (
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// schemaFaults finds schemas of a program that no answer of a model could be held against.
func schemaFaults(p *ir.Program) (findings []ir.Finding) {
	for _, name := range slices.Sorted(maps.Keys(p.Doc.Schemas)) {
		if err := ladder.CheckSchema(p.Doc.Schemas[name]); err != nil {
			at := "/schemas/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			findings = append(findings, fault("schema_invalid", at, "JSON Schema 2020-12, which refers to nothing outside itself", err.Error()))
		}
	}
	return findings
}
