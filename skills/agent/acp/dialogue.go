// Package acp is a client of the Agent Client Protocol, version 1 (agentclientprotocol.com): JSON-RPC 2.0 over stdin and
// stdout of an agent, one message a line. Begin with [Dialogue].
//
//	Begin ─► initialize ─► session/new, load, resume or fork ─► session/prompt ─► its response: the end
//
// A Dialogue holds one prompt. It takes the lines that the agent prints, answers the requests among them and turns the rest
// into events of package adapter. It starts no goroutine, reads no clock and touches no file: [Host] does the work that the
// agent asks its client for.
//
// An agent is not trusted. A line that is not a message has no effect, a response that nothing asked for is reported, an
// unknown request is refused. Before the session is open, and for other sessions, nothing is counted.
package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

// Modes of a session.
const (
	New    = "new"
	Resume = "resume"
	Fork   = "fork"
)

// Config holds the parameters of a dialogue.
type Config struct {
	Version string // of this program
	Cwd     string
	// OwnFiles leaves reading and writing files to the agent.
	OwnFiles bool
	Servers  []Server
	Mode     string
	Session  string // for modes Resume and Fork
	Prompt   string
	// Restart, if set, is the prompt of a new session that replaces one that cannot be resumed.
	Restart string
}

// Host does the work that an agent asks its client for.
type Host interface {
	// ReadFile returns lines of a text file, from line (counted from 1) and at most limit; 0 and -1 stand for all.
	ReadFile(path string, line, limit int) (string, error)
	WriteFile(path, content string) error
	Judge(r Request) Verdict
	// Event is called for each event, in order.
	Event(e adapter.Event)
	// Restarted is called if a new session replaces one that cannot be resumed.
	Restarted(why string)
	// Send sends a line to the agent.
	Send(line []byte)
	// Close closes the agent's stdin: it may exit.
	Close()
}

// Reasons of an end, in addition to the protocol's stop reasons.
const (
	ReasonProtocol  = "protocol_error"
	ReasonNoSession = "no_session"
)

// Dialogue is the conversation with an agent about one prompt. One goroutine uses it.
type Dialogue struct {
	config Config
	host   Host

	asked   string // method of the request that the agent has to answer, "" after the last one
	number  int    // of that request
	agent   initialized
	session string
	open    bool // the session may be told about
	stopped bool // the turn was cancelled
	turn    turn
	spent   float64 // as reported for the session
}

// NewDialogue returns a dialogue that has not begun.
func NewDialogue(c Config, h Host) *Dialogue { return &Dialogue{config: c, host: h, turn: newTurn()} }

// Begin sends the first message.
func (d *Dialogue) Begin() {
	hello := initialize{ProtocolVersion: Version, Client: implementation{"spritekit", d.config.Version}}
	hello.Capabilities.Files.Read, hello.Capabilities.Files.Write = !d.config.OwnFiles, !d.config.OwnFiles
	d.sendRequest("initialize", hello)
}

// Take handles a line that the agent printed.
func (d *Dialogue) Take(line []byte) {
	var m received
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch {
	case d.asked == "":
	case m.Method == "" && m.Error != nil && !isSet(m.ID):
		d.failDialogue(ReasonProtocol, 0, fmt.Sprintf("the agent could not read a message: %v", m.Error))
	case m.Method == "" && isSet(m.ID):
		d.takeResponse(m)
	case m.Method == "session/update" && !isSet(m.ID):
		d.takeUpdate(m.Params)
	case m.Method != "" && isSet(m.ID):
		if result, bad := d.answerRequest(m); bad != nil {
			d.sendMessage(message{ID: m.ID, Error: bad})
		} else {
			d.sendMessage(message{ID: m.ID, Result: result})
		}
	}
}

// Refuse ends the dialogue because of a line that cannot be a message.
func (d *Dialogue) Refuse(why string) {
	if d.asked != "" {
		d.failDialogue(ReasonProtocol, 0, why)
	}
}

func (d *Dialogue) sendMessage(m message) {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return // the id is JSON that the agent sent, the rest is ours
	}
	d.host.Send(append(line, '\n'))
}

// sendRequest sends a request. The agent has one request of ours at a time.
func (d *Dialogue) sendRequest(method string, params any) {
	d.number++
	d.asked = method
	d.sendMessage(message{ID: json.RawMessage(strconv.Itoa(d.number)), Method: method, Params: params})
}

// cancelTurn cancels the turn: the agent ends it, and no permission is given any more.
func (d *Dialogue) cancelTurn() {
	if d.open && !d.stopped && d.asked != "" {
		d.stopped = true
		d.sendMessage(message{Method: "session/cancel", Params: sessionID{d.session}})
	}
}

func (d *Dialogue) emitEvent(kind string, fields map[string]any) {
	d.host.Event(adapter.Event{Kind: kind, Fields: fields})
}

// endDialogue ends the dialogue.
func (d *Dialogue) endDialogue(fields map[string]any) {
	d.asked = ""
	if !d.stopped {
		d.emitEvent(adapter.KindEnd, fields)
	}
	d.host.Close()
}

func (d *Dialogue) failDialogue(reason string, status int, why string) {
	d.endDialogue(map[string]any{"failed": true, "reason": reason, "status": float64(status), "message": why})
}

// takeResponse handles the response to our request.
func (d *Dialogue) takeResponse(m received) {
	if string(m.ID) != strconv.Itoa(d.number) {
		d.emitEvent(adapter.KindError, map[string]any{"message": fmt.Sprintf("the agent answered a request that was not made: %.40s", m.ID)})
		return
	}
	method := d.asked
	if m.Error != nil {
		d.takeError(method, m.Error)
		return
	}
	var err error
	switch method {
	case "initialize":
		if err = json.Unmarshal(m.Result, &d.agent); err == nil {
			d.openSession()
		}
	case "session/prompt":
		var r prompted
		if err = json.Unmarshal(m.Result, &r); err == nil {
			d.takeEnd(r)
		}
	default:
		var r sessionOpened
		if err = json.Unmarshal(m.Result, &r); err == nil {
			err = d.sendPrompt(method, r)
		}
	}
	if err != nil {
		d.failDialogue(ReasonProtocol, 0, fmt.Sprintf("the agent's answer to %s is not one: %v", method, err))
	}
}

// takeError handles the error that the agent returned to our request.
func (d *Dialogue) takeError(method string, e *rpcError) {
	switch {
	case e.Code == codeAuth:
		d.failDialogue("auth_required", 401, fmt.Sprintf("the agent asks for a login, which needs a person: %v", e))
	case method != "session/load" && method != "session/resume":
		d.failDialogue("error", 0, fmt.Sprintf("%s: %v", method, e))
	default:
		d.restartSession(e.Error())
	}
}

// openSession opens the session after the agent has introduced itself.
func (d *Dialogue) openSession() {
	c, can := d.config, d.agent.Capabilities
	s := openSession{Cwd: c.Cwd, Servers: append([]Server{}, c.Servers...)}
	if d.agent.ProtocolVersion != Version {
		d.failDialogue(ReasonProtocol, 0, fmt.Sprintf("the agent speaks version %d of the protocol, not %d", d.agent.ProtocolVersion, Version))
		return
	}
	if c.Mode != New {
		s.Session = c.Session
	}
	switch {
	case c.Mode == New:
		d.sendRequest("session/new", s)
	case c.Mode == Fork && isSet(can.Sessions.Fork):
		d.sendRequest("session/fork", s)
	case c.Mode == Fork:
		d.failDialogue(ReasonNoSession, 0, "the agent cannot fork sessions")
	case isSet(can.Sessions.Resume):
		d.sendRequest("session/resume", s)
	case can.Load:
		d.sendRequest("session/load", s)
	default:
		d.restartSession("the agent cannot resume sessions")
	}
}

// restartSession begins a new session in the place of one that cannot be resumed.
func (d *Dialogue) restartSession(why string) {
	if d.config.Restart == "" {
		d.failDialogue(ReasonNoSession, 0, why)
		return
	}
	d.config.Mode, d.config.Session, d.config.Prompt = New, "", d.config.Restart
	d.host.Restarted(why)
	d.openSession()
}

// sendPrompt sends the prompt to the session that was opened.
func (d *Dialogue) sendPrompt(method string, s sessionOpened) error {
	d.session = s.Session
	if method == "session/load" || method == "session/resume" {
		d.session = d.config.Session
	}
	if d.session == "" {
		return errors.New("it names no session")
	}
	d.open = true
	d.emitEvent(adapter.KindStart, map[string]any{"session": d.session, "model": s.currentModel(), "version": d.agent.Agent.Version})
	d.sendRequest("session/prompt", prompt{d.session, []block{{"text", d.config.Prompt}}})
	return nil
}

// takeEnd handles the end of the turn.
func (d *Dialogue) takeEnd(r prompted) {
	d.showTools()
	if u := r.Usage; u != nil {
		d.emitEvent(adapter.KindUsage, map[string]any{"input": u.Input, "output": u.Output, "cached": u.Cached, "reasoning": u.Reasoning})
	}
	switch r.StopReason {
	case "end_turn":
		d.endDialogue(nil)
	case "max_turn_requests":
		d.failDialogue(r.StopReason, 0, "the agent asked the model as often as it may in a turn")
	case "max_tokens":
		d.failDialogue(r.StopReason, 0, "the model's answer was longer than it may be")
	case "refusal":
		d.failDialogue(r.StopReason, 0, "the model refuses to go on")
	case "cancelled":
		d.failDialogue(r.StopReason, 0, "the agent says that it was cancelled")
	default:
		d.failDialogue(ReasonProtocol, 0, fmt.Sprintf("the turn ended with %.40q, which is not a reason of the protocol", r.StopReason))
	}
}

// answerRequest returns the answer to a request of the agent.
func (d *Dialogue) answerRequest(m received) (any, *rpcError) {
	switch m.Method {
	case "session/request_permission":
		var p requestPermission
		if bad := d.decode(m.Params, &p, &p.sessionID); bad != nil {
			return nil, bad
		}
		return d.judgeRequest(p)
	case "fs/read_text_file":
		var p readFile
		if bad := d.decode(m.Params, &p, &p.sessionID); bad != nil {
			return nil, bad
		}
		limit := -1
		if p.Limit != nil {
			limit = max(*p.Limit, 0)
		}
		text, err := d.host.ReadFile(p.Path, p.Line, limit)
		return fileRead{text}, fileError(p.Path, err)
	case "fs/write_text_file":
		var p writeFile
		if bad := d.decode(m.Params, &p, &p.sessionID); bad != nil {
			return nil, bad
		}
		return struct{}{}, fileError(p.Path, d.host.WriteFile(p.Path, p.Content))
	}
	return nil, &rpcError{Code: codeNoMethod, Message: fmt.Sprintf("Method not found: %.80s", m.Method)}
}

// decode reads the parameters of a request, which must be one of our session.
func (d *Dialogue) decode(raw json.RawMessage, v any, id *sessionID) *rpcError {
	if err := json.Unmarshal(raw, v); err != nil {
		return &rpcError{Code: codeBadParams, Message: err.Error()}
	}
	if !d.open || id.Session != d.session {
		return &rpcError{Code: codeBadParams, Message: fmt.Sprintf("there is no session %.80q", id.Session)}
	}
	return nil
}

// fileError returns the error of a file. Agents know a file that does not exist by the words of the first case.
func fileError(path string, err error) *rpcError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &rpcError{Code: codeNotFound, Message: "Resource not found: " + path}
	}
	return &rpcError{Code: codeBadParams, Message: strings.ToValidUTF8(err.Error(), "\uFFFD")}
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
