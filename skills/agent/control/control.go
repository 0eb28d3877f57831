// Package control speaks the control protocol of Claude Code, by which the program asks its host before it uses a tool: one JSON
// message a line on stdin and stdout. Begin with [Dialogue].
//
//	user message ─► … control_request can_use_tool ─► control_response: allow or deny … ─► result: the end
//
// A Dialogue holds one prompt and answers requests. The other messages are events, which the rules of the adapter read. The
// agent is not trusted: a request is allowed only as it was judged, and a request of another kind is refused.
package control

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/skills/agent/acp"
)

// Host decides about requests and carries messages.
type Host interface {
	Judge(r acp.Request) acp.Verdict
	// Send sends a line to the agent.
	Send(line []byte)
	// Close closes the agent's stdin: it may exit.
	Close()
}

// Dialogue is the conversation with an agent about one prompt. One goroutine uses it.
type Dialogue struct {
	host    Host
	stopped bool // no more is allowed
}

// Begin sends the prompt.
func Begin(h Host, prompt string) *Dialogue {
	d := &Dialogue{host: h}
	d.sendMessage(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": prompt}}}})
	return d
}

// received is a message of the agent.
type received struct {
	Type    string `json:"type"`
	ID      string `json:"request_id"`
	Request struct {
		Subtype     string          `json:"subtype"`
		Tool        string          `json:"tool_name"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"input"`
	} `json:"request"`
}

// Take handles a line that the agent printed.
func (d *Dialogue) Take(line []byte) {
	var m received
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch m.Type {
	case "result":
		d.host.Close()
	case "control_request":
		d.answerRequest(m)
	}
}

// Refuse ends the dialogue because of a line that cannot be a message.
func (d *Dialogue) Refuse(string) {
	d.stopped = true
	d.host.Close()
}

// answerRequest answers a request.
func (d *Dialogue) answerRequest(m received) {
	if m.Request.Subtype != "can_use_tool" {
		d.sendMessage(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": m.ID, "error": fmt.Sprintf("%.80q is not supported", m.Request.Subtype)}})
		return
	}
	decision := map[string]any{"behavior": "deny", "message": "The tool was not allowed."}
	if !d.stopped {
		switch d.host.Judge(newRequest(m)) {
		case acp.Allow:
			decision = map[string]any{"behavior": "allow", "updatedInput": m.Request.Input}
		case acp.Ask:
			d.stopped = true
			decision["message"], decision["interrupt"] = "A person is asked.", true
		}
	}
	d.sendMessage(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": m.ID, "response": decision}})
	if d.stopped {
		d.host.Close()
	}
}

// newRequest describes the use of a tool. Its arguments are all of the tool's input.
func newRequest(m received) acp.Request {
	r := acp.Request{Kind: kindOf(m.Request.Tool), Name: m.Request.Tool, Title: m.Request.Tool + " " + m.Request.Description}
	if m.Request.Tool == "" || len(m.Request.Input) == 0 || string(m.Request.Input) == "null" {
		return r
	}
	return r.Bind(map[string]any{"name": m.Request.Tool, "input": m.Request.Input})
}

// kindOf returns the kind of a tool in the words of the Agent Client Protocol.
func kindOf(tool string) string {
	switch tool {
	case "Read":
		return "read"
	case "Edit", "MultiEdit", "NotebookEdit", "Write":
		return "edit"
	case "Bash":
		return "execute"
	case "Glob", "Grep", "WebSearch":
		return "search"
	case "WebFetch":
		return "fetch"
	}
	return "other"
}

func (d *Dialogue) sendMessage(m map[string]any) {
	line, err := json.Marshal(m)
	if err != nil {
		return // ids and input are JSON that the agent sent
	}
	d.host.Send(append(line, '\n'))
}
