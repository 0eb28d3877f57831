package compile

import (
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// TestParseReadsRulesOnce holds that a document which needs no step rules does not pay for them: reading all of them
// takes some 20,000 allocations.
func TestParseReadsRulesOnce(t *testing.T) {
	doc := []byte(`{"execir_version":"1.0","id":"p","tools":[],"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"a":1}}],"edges":[]}`)
	Parse(doc, manifests.Lookup)
	bare := testing.AllocsPerRun(20, func() { check.Parse(doc, manifests.Lookup, schemaFaults) })
	whole := testing.AllocsPerRun(20, func() { Parse(doc, manifests.Lookup) })
	if whole > bare+200 {
		t.Errorf("Parse makes %.0f allocations, the reader of ExecIR alone %.0f", whole, bare)
	}
}

func TestPlainPointersAreNotCopied(t *testing.T) {
	if n := testing.AllocsPerRun(20, func() { finding.EscapePointer("plain_name") }); n > 0 {
		t.Errorf("escapePointer makes %.0f allocations for a name without ~ and /", n)
	}
}

// TestBuiltinRulesAreTheCallers holds that a caller who changes the map changes nobody else's, and that lowering leaves the
// rules as they are.
func TestBuiltinRulesAreTheCallers(t *testing.T) {
	clear(BuiltinRules())
	if len(BuiltinRules()) == 0 {
		t.Error("the rules are gone")
	}
}
