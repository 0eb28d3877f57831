package ir

import (
	"encoding/json"
)

// The input schema of a document: input_schema is a JSON Schema or the name of one. This file uses it to find out which
// members an input can have and their types. Keywords that combine schemas (allOf, anyOf, if …) are ignored here; package
// compile validates an input against the whole schema.

// InputSchema returns the JSON Schema that the input of a run must satisfy, nil if there is none.
func (p *Program) InputSchema() json.RawMessage { return p.Doc.FullInputSchema() }

// SubgraphInputSchema returns the JSON Schema that the inputs of a SUBGRAPH node must satisfy, nil if there is none.
func (p *Program) SubgraphInputSchema(n *Node) json.RawMessage {
	return p.homeOf(p.subgraphOf(n.Ref)).FullInputSchema()
}

// homeOf returns the document that inner is the graph of.
func (p *Program) homeOf(inner Inner) *Document {
	if inner.Body == nil || len(inner.Nodes) == 0 {
		return &Document{}
	}
	return p.documentOf(&inner.Nodes[0])
}

func (d *Document) FullInputSchema() json.RawMessage {
	var name string
	if d.InputSchema == nil || json.Unmarshal(d.InputSchema, &name) != nil {
		return d.InputSchema
	}
	schema, _ := d.FindOutputSchema(name)
	return schema
}
