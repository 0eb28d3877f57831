package acp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Verdict is the decision about a Request.
type Verdict int

// The verdicts. Ask ends the turn: a person decides, and the agent asks again in a later dialogue.
const (
	Deny Verdict = iota
	Allow
	Ask
)

// Request is a use of a tool that the agent asks permission for. Everything in it is the agent's word.
type Request struct {
	Kind  string `json:"kind"` // read, edit, delete, move, search, execute, think, fetch, switch_mode or other
	Name  string `json:"name"` // of the tool, "" if the agent does not report it
	Title string `json:"title"`
	// Arguments is all that the agent reports of the call but its id, as canonical JSON. It is nil if the agent does not
	// report with which arguments it calls the tool.
	Arguments json.RawMessage `json:"arguments"`
	// SHA256 is the digest of Arguments, by which an answer is bound to the request.
	SHA256 string `json:"sha256"`
}

// toolKinds are the kinds of the protocol.
var toolKinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// newRequest describes a call of a tool.
func newRequest(t toolCall) Request {
	if !slices.Contains(toolKinds, t.Kind) {
		t.Kind = "other"
	}
	r := Request{Kind: t.Kind, Name: t.Name, Title: t.Title}
	if !hasContent(t.Input) && !hasContent(t.Content) && !hasContent(t.Locations) {
		return r
	}
	all := map[string]any{"kind": t.Kind, "title": t.Title}
	if t.Name != "" {
		all["name"] = t.Name
	}
	for name, value := range map[string]json.RawMessage{"rawInput": t.Input, "content": t.Content, "locations": t.Locations} {
		if hasContent(value) {
			all[name] = value
		}
	}
	return r.Bind(all)
}

// Bind returns the request with its arguments, which are all that the agent reports of the call, and their digest.
func (r Request) Bind(arguments map[string]any) Request {
	raw, err := json.Marshal(arguments)
	if err == nil {
		raw, err = protocol.Canonical(raw)
	}
	if err != nil {
		return r // arguments without a canonical form are not known
	}
	r.Arguments, r.SHA256 = raw, fmt.Sprintf("%x", sha256.Sum256(raw))
	return r
}

// hasContent reports whether a JSON value is there and not empty.
func hasContent(raw json.RawMessage) bool {
	text := strings.Join(strings.Fields(string(raw)), "")
	return isSet(raw) && !slices.Contains([]string{"[]", "{}", `""`}, text)
}
