package acp

import (
	"cmp"
	"encoding/json"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

const (
	maxTools     = 10_000   // calls of tools that are followed in one dialogue
	maxNames     = 1 << 10  // bytes of the id, the name, the kind and the status of one
	maxArguments = 16 << 20 // bytes of the arguments of those that run
)

// turn follows the answers of the model. An answer with the results of its tools is one turn: the next one begins when the
// agent goes on after the result of the last tool that it called.
type turn struct {
	begun   bool
	message string // id of the turn's message
	tools   map[string]toolCall
	order   []string        // the ids of tools, in the order of their first message
	shown   map[string]bool // tools that were reported as called
	running map[string]bool
	held    int  // bytes of the arguments in tools
	results bool // a tool has ended since the turn began
}

func newTurn() turn {
	return turn{tools: map[string]toolCall{}, shown: map[string]bool{}, running: map[string]bool{}}
}

// takeUpdate handles a notification about the session.
func (d *Dialogue) takeUpdate(raw json.RawMessage) {
	var n update
	var u sessionUpdate
	if json.Unmarshal(raw, &n) != nil || !d.open || n.Session != d.session {
		return
	}
	var t toolCall
	if json.Unmarshal(n.Update, &t) == nil && t.ID != "" { // its content is a list
		d.takeTool(t)
		return
	}
	if json.Unmarshal(n.Update, &u) != nil {
		return
	}
	switch u.Is {
	case "agent_message_chunk":
		if t := &d.turn; t.message != "" && u.Message != t.message {
			t.begun = false // another answer of the model, after one that called no tool
		}
		d.countTurn()
		d.turn.message = u.Message
		if u.Content.Type == "text" {
			d.emitEvent(adapter.KindText, map[string]any{"text": u.Content.Text, "delta": true})
		}
	case "agent_thought_chunk":
		d.countTurn()
	case "plan":
		d.emitEvent(adapter.KindPlan, map[string]any{"entries": u.Entries})
	case "usage_update":
		if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount >= d.spent { // a sum over the session
			d.emitEvent(adapter.KindUsage, map[string]any{"cost": u.Cost.Amount - d.spent})
			d.spent = u.Cost.Amount
		}
	}
}

// countTurn begins a turn if the last one is over.
func (d *Dialogue) countTurn() {
	t := &d.turn
	if !t.begun || t.results && len(t.running) == 0 {
		t.begun, t.results, t.message = true, false, ""
		d.emitEvent(adapter.KindTurn, nil)
	}
}

// takeTool follows a call of a tool.
func (d *Dialogue) takeTool(c toolCall) {
	t := &d.turn
	before, known := t.tools[c.ID]
	if len(c.ID)+len(c.Name)+len(c.Kind)+len(c.Status) > maxNames {
		return
	}
	if !known {
		if len(t.tools) >= maxTools {
			return
		}
		d.countTurn()
		t.running[c.ID] = true
		t.order = append(t.order, c.ID)
	}
	now := c.fillFrom(before)
	t.keepTool(now)
	if now.Status != "pending" {
		d.showTool(now)
	}
	if ended := now.Status == "completed" || now.Status == "failed"; ended && t.running[c.ID] {
		t.keepTool(now.withoutArguments())
		delete(t.running, c.ID)
		t.results = true
		d.emitEvent(adapter.KindToolResult, map[string]any{"id": c.ID, "failed": now.Status == "failed"})
	}
}

// keepTool notes what is known of a call, without its arguments if there are too many already.
func (t *turn) keepTool(c toolCall) {
	t.held -= t.tools[c.ID].sizeArguments()
	if t.held+c.sizeArguments() > maxArguments {
		c = c.withoutArguments()
	}
	t.held += c.sizeArguments()
	t.tools[c.ID] = c
}

// showTool reports a call of a tool once, as soon as its arguments are known.
func (d *Dialogue) showTool(c toolCall) {
	if d.turn.shown[c.ID] {
		return
	}
	d.turn.shown[c.ID] = true
	fields := map[string]any{"id": c.ID, "name": cmp.Or(c.Name, c.Kind, "other"), "input": c.Title}
	var input any
	if hasContent(c.Input) && json.Unmarshal(c.Input, &input) == nil {
		fields["input"] = input
	}
	d.emitEvent(adapter.KindToolCall, fields)
}

// showTools reports the calls that never began to run.
func (d *Dialogue) showTools() {
	for _, id := range d.turn.order {
		if d.turn.running[id] {
			d.showTool(d.turn.tools[id])
		}
	}
}
