package acp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

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
	raw, err := json.Marshal(all)
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
	return isSet(raw) && !slices.Contains([]string{"[]", "{}", `""`}, string(raw))
}

// judgeRequest answers a request for permission.
func (d *Dialogue) judgeRequest(p requestPermission) (any, *rpcError) {
	if p.Tool.ID == "" || len(p.Options) == 0 {
		return nil, &rpcError{Code: codeBadParams, Message: "the request names no tool call or no options"}
	}
	d.takeTool(p.Tool)
	verdict := Deny
	if !d.stopped {
		verdict = d.host.Judge(newRequest(p.Tool.fillFrom(d.turn.tools[p.Tool.ID])))
	}
	wanted := []string{"reject_once", "reject_always"}
	switch verdict {
	case Allow: // once, if the agent offers that: the next request is judged, too
		wanted = []string{"allow_once", "allow_always"}
	case Ask:
		d.cancelTurn()
	}
	if verdict == Deny { // not every agent reports how the call ended
		d.takeTool(toolCall{ID: p.Tool.ID, Status: "failed"})
	}
	if !d.stopped {
		for _, kind := range wanted {
			if i := slices.IndexFunc(p.Options, func(o option) bool { return o.Kind == kind }); i >= 0 {
				return permission{outcome{"selected", p.Options[i].ID}}, nil
			}
		}
	}
	return permission{outcome{Outcome: "cancelled"}}, nil
}
