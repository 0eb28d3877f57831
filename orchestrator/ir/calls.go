package ir

import (
	"maps"
)

// ExpectedInputs returns the inputs that a HUMAN node asks for: expected_inputs, or {"choice":"string"} if it offers
// choices, or approved and comments.
func (n *Node) ExpectedInputs() map[string]string {
	switch {
	case len(n.Expected) > 0:
		return maps.Clone(n.Expected)
	case len(n.Choices) > 0:
		return map[string]string{"choice": "string"}
	}
	return map[string]string{"approved": "boolean", "comments": "string"}
}
