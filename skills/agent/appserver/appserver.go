// Package appserver is a client of the app server of Codex: JSON-RPC on stdin and stdout of the program, one message a line. The
// program asks by it for permission before it runs a command or changes a file. Begin with [Dialogue].
//
//	initialize ─► thread/start, resume or fork ─► turn/start ─► … requestApproval: accept or cancel … ─► turn/completed: the end
//
// A Dialogue holds one prompt and answers requests. The notifications are events, which the rules of the adapter read. The agent is
// not trusted: a request is allowed only as it was judged, and a request of another kind is refused.
package appserver

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
)

// Host decides about requests and carries messages.
type Host interface {
	Judge(r acp.Request) acp.Verdict
	Event(e adapter.Event)
	// Send sends a line to the agent.
	Send(line []byte)
	// Close closes the agent's stdin: it may exit.
	Close()
}

// Config holds the parameters of a dialogue.
type Config struct {
	Version string // of this program
	Cwd     string
	Model   string
	Mode    string // acp.New, Resume or Fork
	Session string // for modes Resume and Fork
	Prompt  string
	Schema  json.RawMessage // of the last message, if there is one
}

// Dialogue is the conversation with an agent about one prompt. One goroutine uses it.
type Dialogue struct {
	config  Config
	host    Host
	asked   int                        // number of our last request
	changes map[string]json.RawMessage // of files, by item
	held    int                        // bytes of changes
	stopped bool                       // no more is allowed
}

const (
	maxChanges = 10_000   // items that are followed in one dialogue
	maxHeld    = 16 << 20 // bytes of their changes
)

// Numbers of our requests.
const (
	initialize = iota + 1
	openThread
	startTurn
)

// Begin sends the first message.
func Begin(c Config, h Host) *Dialogue {
	d := &Dialogue{config: c, host: h, changes: map[string]json.RawMessage{}}
	d.sendRequest(initialize, "initialize", map[string]any{"clientInfo": map[string]any{"name": "spritekit", "version": c.Version}})
	return d
}

// received is a message of the agent.
type received struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Model string `json:"model"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Take handles a line that the agent printed.
func (d *Dialogue) Take(line []byte) {
	var m received
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch {
	case m.Method == "" && string(m.ID) == fmt.Sprint(d.asked):
		d.takeResponse(m)
	case m.Method == "turn/completed":
		d.host.Close()
	case m.Method == "item/started" || m.Method == "item/fileChange/patchUpdated":
		d.noteChanges(m.Params)
	case m.Method != "" && len(m.ID) > 0:
		d.answerRequest(m)
	}
}

// Refuse ends the dialogue because of a line that cannot be a message.
func (d *Dialogue) Refuse(why string) { d.failDialogue("protocol_error", why) }

func (d *Dialogue) failDialogue(reason, why string) {
	d.stopped = true
	d.host.Event(adapter.Event{Kind: adapter.KindEnd, Fields: map[string]any{"failed": true, "reason": reason, "message": why}})
	d.host.Close()
}

// takeResponse handles the response to our last request.
func (d *Dialogue) takeResponse(m received) {
	switch {
	case m.Error != nil && d.asked == openThread && d.config.Mode != acp.New:
		d.failDialogue(acp.ReasonNoSession, m.Error.Message)
	case m.Error != nil:
		d.failDialogue("error", m.Error.Message)
	case d.asked == initialize:
		d.sendMessage(map[string]any{"method": "initialized"})
		method := map[string]string{acp.New: "thread/start", acp.Resume: "thread/resume", acp.Fork: "thread/fork"}[d.config.Mode]
		// Every command that is not known to read only is asked for. The sprite is the sandbox of the others.
		params := map[string]any{"cwd": d.config.Cwd, "approvalPolicy": "untrusted", "approvalsReviewer": "user", "sandbox": "danger-full-access"}
		if d.config.Model != "" {
			params["model"] = d.config.Model
		}
		if d.config.Mode != acp.New {
			params["threadId"] = d.config.Session
		}
		d.sendRequest(openThread, method, params)
	case d.asked == openThread:
		thread := cmp.Or(m.Result.Thread.ID, d.config.Session)
		d.host.Event(adapter.Event{Kind: adapter.KindStart, Fields: map[string]any{"session": thread, "model": m.Result.Model}})
		turn := map[string]any{"threadId": thread, "input": []any{map[string]any{"type": "text", "text": d.config.Prompt}}}
		if len(d.config.Schema) > 0 {
			turn["outputSchema"] = d.config.Schema
		}
		d.sendRequest(startTurn, "turn/start", turn)
	}
}

// noteChanges keeps the changes of files that an item describes: a request for permission names the item only.
func (d *Dialogue) noteChanges(raw json.RawMessage) {
	var p struct {
		ID      string          `json:"itemId"`
		Changes json.RawMessage `json:"changes"`
		Item    struct {
			Type    string          `json:"type"`
			ID      string          `json:"id"`
			Changes json.RawMessage `json:"changes"`
		} `json:"item"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return
	}
	id, changes := cmp.Or(p.ID, p.Item.ID), p.Changes
	if p.Item.Type == "fileChange" {
		changes = p.Item.Changes
	}
	if id == "" || len(changes) == 0 {
		return
	}
	if before, known := d.changes[id]; known { // no person is asked about changes that have changed
		d.held -= len(id) + len(before)
		delete(d.changes, id)
	}
	if size := len(id) + len(changes); len(d.changes) < maxChanges && d.held+size <= maxHeld {
		d.changes[id] = changes
		d.held += size
	}
}

// answerRequest answers a request of the agent.
func (d *Dialogue) answerRequest(m received) {
	r, ok := d.newRequest(m)
	if !ok {
		d.sendMessage(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": fmt.Sprintf("Method not found: %.80s", m.Method)}})
		return
	}
	decision := "decline"
	if !d.stopped {
		switch d.host.Judge(r) {
		case acp.Allow:
			decision = "accept"
		case acp.Ask:
			d.stopped = true
		}
	}
	if d.stopped {
		decision = "cancel" // it also ends the turn
	}
	d.sendMessage(map[string]any{"id": m.ID, "result": map[string]any{"decision": decision}})
}

// newRequest describes the use of a tool that the agent asks permission for. Its arguments are the command with its folder, or the
// changes of files.
func (d *Dialogue) newRequest(m received) (acp.Request, bool) {
	var p struct {
		Kind    string          `json:"kind"`
		Item    string          `json:"itemId"`
		Command string          `json:"command"`
		Cwd     string          `json:"cwd"`
		Reason  string          `json:"reason"`
		Network json.RawMessage `json:"networkApprovalContext"`
		Root    string          `json:"grantRoot"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return acp.Request{}, false
	}
	switch m.Method {
	case "item/commandExecution/requestApproval":
		r := acp.Request{Kind: "execute", Name: "command_execution", Title: cmp.Or(p.Command, p.Reason)}
		all := map[string]any{"name": r.Name, "kind": p.Kind, "command": p.Command, "cwd": p.Cwd}
		if len(p.Network) > 0 && string(p.Network) != "null" {
			all["network"] = p.Network
		}
		if p.Command == "" {
			return r, true // the command is not known
		}
		return r.Bind(all), true
	case "item/fileChange/requestApproval":
		r := acp.Request{Kind: "edit", Name: "file_change", Title: cmp.Or(p.Reason, "change files")}
		changes := d.changes[p.Item]
		if len(changes) == 0 || string(changes) == "[]" {
			return r, true
		}
		return r.Bind(map[string]any{"name": r.Name, "changes": changes, "root": p.Root}), true
	}
	return acp.Request{}, false
}

func (d *Dialogue) sendRequest(number int, method string, params any) {
	d.asked = number
	d.sendMessage(map[string]any{"id": number, "method": method, "params": params})
}

func (d *Dialogue) sendMessage(m map[string]any) {
	line, err := json.Marshal(m)
	if err != nil {
		return // ids are JSON that the agent sent, the rest is ours
	}
	d.host.Send(append(line, '\n'))
}
