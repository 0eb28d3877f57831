package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// askUser is the skill whose question a client can put to its own user.
const askUser = "ask.user"

// elicitation is the key of the question among the requests of a result.
const elicitation = "question"

// askPerson lets the client ask its user the question of ask.user if the client can do that; done is false if the skill itself
// must ask. An agent in a sprite has no user there: its questions are for people outside.
func (s *Server) askPerson(m manifests.Skill, req *sdk.CallToolRequest) (result *sdk.CallToolResult, done bool) {
	if m.Name != askUser || s.options.Env.AgentCallID != "" || missingGrants(m, s.options.Env.Grants) != nil || !CanElicit(req.Session) {
		return nil, false
	}
	var q struct {
		Question string            `json:"question"`
		Choices  []string          `json:"choices"`
		Default  string            `json:"default"`
		Expected map[string]string `json:"expected_inputs"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(req.Params.Arguments, &members) != nil || len(m.CheckInput(members)) > 0 ||
		json.Unmarshal(req.Params.Arguments, &q) != nil || q.Question == "" {
		return nil, false // the skill refuses it, with better words
	}
	if len(q.Expected) == 0 {
		q.Expected = map[string]string{"answer": "string"}
	}
	properties, required := schema{}, []string{}
	for name, t := range q.Expected {
		switch t {
		case "string", "integer", "boolean":
		default:
			return nil, false // a form has no fields of other types
		}
		properties[name] = schema{"type": t}
		if name != "answer" || q.Default == "" {
			required = append(required, name)
		}
	}
	if field, ok := properties["answer"].(schema); ok && q.Expected["answer"] == "string" {
		if len(q.Choices) > 0 {
			field["enum"] = q.Choices
		}
		if q.Default != "" {
			field["default"] = q.Default
		}
	}
	response, ok := req.Params.InputResponses[elicitation].(*sdk.ElicitResult)
	if !ok {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{elicitation: &sdk.ElicitParams{
			Mode: "form", Message: q.Question,
			RequestedSchema: schema{"type": "object", "properties": properties, "required": required},
		}}}, true
	}
	switch response.Action {
	case "accept":
	case "decline":
		return newRefusal(m.Name, "declined", "the user declined to answer", "go on without the answer, or end the work"), true
	default:
		return newRefusal(m.Name, "not_answered", "the user gave no answer", "go on without the answer, or end the work"), true
	}
	data := map[string]any{"answers": response.Content}
	answers := response.Content
	if answers == nil {
		answers = map[string]any{}
		data["answers"] = answers
	}
	if q.Expected["answer"] == "string" {
		if text, _ := answers["answer"].(string); text != "" {
			data["answer"] = text
		} else if q.Default != "" {
			answers["answer"], data["answer"] = q.Default, q.Default
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return newRefusal(m.Name, "internal", err.Error(), ""), true
	}
	line, err := json.Marshal(protocol.Result{OK: true, Skill: m.Name, Data: raw})
	if err != nil {
		return newRefusal(m.Name, "internal", err.Error(), ""), true
	}
	return newAnswer(line, false), true
}

// CanElicit reports whether the client of a session shows forms to a user.
func CanElicit(session *sdk.ServerSession) bool {
	p := session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	offers := p.Capabilities.Elicitation
	return offers.Form != nil || offers.URL == nil // neither is the word of older clients for forms
}
