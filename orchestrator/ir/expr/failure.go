package expr

import (
	"encoding/json"
	"slices"
)

// Failure is a failed evaluation or node.
type Failure struct {
	Kind    string          `json:"kind"`
	Message string          `json:"message"`
	Node    string          `json:"node,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// Failure kinds, a closed list.
const (
	FailTimeout         = "timeout"
	FailTool            = "tool_error"
	FailToolUnavailable = "tool_unavailable"
	FailToolDenied      = "tool_denied"
	FailParse           = "parse_failure"
	FailSchema          = "schema_failure"
	FailInvariant       = "invariant_failure"
	FailRefusal         = "refusal"
	FailTruncated       = "truncated"
	FailProvider        = "provider_error"
	FailRateLimited     = "rate_limited"
	FailRef             = "ref_unresolved"
	FailStateType       = "state_type_error"
	FailNoEdge          = "no_edge_matched"
	FailLimit           = "limit_exceeded"
	FailCancelled       = "cancelled"
	FailHumanRejected   = "human_rejected"
	FailHumanTimeout    = "human_timeout"
	FailVerify          = "verify_red"
)

// failureKinds is the closed list that retry, catch and escalation choose from.
var failureKinds = []string{
	FailTimeout, FailTool, FailToolUnavailable, FailToolDenied, FailParse, FailSchema, FailInvariant, FailRefusal, FailTruncated,
	FailProvider, FailRateLimited, FailRef, FailStateType, FailNoEdge, FailLimit, FailCancelled, FailHumanRejected, FailHumanTimeout,
	FailVerify,
}

// FailureKinds lists the kinds of failures that retry and catch choose from, besides ALL.
func FailureKinds() []string { return slices.Clone(failureKinds) }
