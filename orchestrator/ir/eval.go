package ir

import (
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
)

// Cond is the strict, total condition AST of edges and cases.
type Cond struct{ raw json.RawMessage }

// True evaluates c.
func (c *Cond) True(s Scope) (bool, *Failure) { return false, nil }

// IsCase reports whether c is {"op":"case","is":name} and returns the name; IsOtherwise likewise.
func (c *Cond) IsCase() (string, bool) { return "", false }

// Eval resolves a value expression: references, {"ref",pick,omit,default,…}, {"lit"}, {"concat"}, {"len"}, {"json"}.
func Eval(expr json.RawMessage, s Scope) (any, *Failure) { return nil, nil }

// Assign writes v at path ("$vars.a.b") and returns the changed roots; parents are created as objects. The maps given
// are not modified in place where they are shared.
func Assign(path string, vars, tmp map[string]any, v any) *Failure { return nil }

// Parse decodes a document strictly (duplicate and unknown keys refused) and validates it against the manifests of
// its tools. All findings are returned at once; the program is nil when one of them is an error.
func Parse(data []byte, tools func(name string) (manifests.Skill, bool)) (*Program, []Finding) {
	return nil, nil
}
