package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Version is the version of the protocol.
const Version = 1

// Codes of JSON-RPC and of the protocol.
const (
	codeNoMethod  = -32601
	codeBadParams = -32602
	codeAuth      = -32000
	codeNotFound  = -32002
)

// message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// received is a message of an agent.
type received struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string {
	var data struct {
		Details string `json:"details"`
	}
	_ = json.Unmarshal(e.Data, &data) // data of another form adds nothing
	if data.Details != "" {
		return fmt.Sprintf("%s: %s", e.Message, data.Details)
	}
	return e.Message
}

// isSet reports whether a member is there and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// Server is an MCP server that an agent starts.
type Server struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []Variable `json:"env"`
}

// Variable is a variable of a Server's environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type initialize struct {
	ProtocolVersion int `json:"protocolVersion"`
	Capabilities    struct {
		Files struct {
			Read  bool `json:"readTextFile"`
			Write bool `json:"writeTextFile"`
		} `json:"fs"`
		Terminal bool `json:"terminal"`
	} `json:"clientCapabilities"`
	Client implementation `json:"clientInfo"`
}

type initialized struct {
	ProtocolVersion int            `json:"protocolVersion"`
	Agent           implementation `json:"agentInfo"`
	Capabilities    struct {
		Load     bool `json:"loadSession"`
		Sessions struct {
			Resume json.RawMessage `json:"resume"`
			Fork   json.RawMessage `json:"fork"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
}

// openSession is the request session/new, session/load, session/resume or session/fork.
type openSession struct {
	Session string   `json:"sessionId,omitempty"`
	Cwd     string   `json:"cwd"`
	Servers []Server `json:"mcpServers"`
}

type sessionOpened struct {
	Session string `json:"sessionId"`
	Models  struct {
		Current string `json:"currentModelId"`
	} `json:"models"`
	Options []struct {
		Category string `json:"category"`
		Current  any    `json:"currentValue"`
	} `json:"configOptions"`
}

// currentModel returns the name of the model, "" if it is not reported.
func (s sessionOpened) currentModel() string {
	for _, o := range s.Options {
		if name, ok := o.Current.(string); ok && o.Category == "model" {
			return name
		}
	}
	return s.Models.Current
}

type prompt struct {
	Session string  `json:"sessionId"`
	Prompt  []block `json:"prompt"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type prompted struct {
	StopReason string `json:"stopReason"`
	Usage      *struct {
		Input     float64 `json:"inputTokens"`
		Output    float64 `json:"outputTokens"`
		Cached    float64 `json:"cachedReadTokens"`
		Reasoning float64 `json:"thoughtTokens"`
	} `json:"usage"`
}

type sessionID struct {
	Session string `json:"sessionId"`
}

type readFile struct {
	sessionID
	Path  string `json:"path"`
	Line  int    `json:"line"`
	Limit *int   `json:"limit"`
}

type fileRead struct {
	Content string `json:"content"`
}

type writeFile struct {
	sessionID
	Path    string `json:"path"`
	Content string `json:"content"`
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

type requestPermission struct {
	sessionID
	Tool    toolCall `json:"toolCall"`
	Options []option `json:"options"`
}

type permission struct {
	Outcome outcome `json:"outcome"`
}

type outcome struct {
	Outcome string `json:"outcome"` // selected or cancelled
	Option  string `json:"optionId,omitempty"`
}

// toolCall is a call of a tool, or a change of one.
type toolCall struct {
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Name      string          `json:"name"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Content   json.RawMessage `json:"content"`
	Locations json.RawMessage `json:"locations"`
}

// fillFrom returns the call with members of before in the place of those that are absent.
func (t toolCall) fillFrom(before toolCall) toolCall {
	for _, m := range []struct{ to, from *string }{{&t.Title, &before.Title}, {&t.Name, &before.Name}, {&t.Kind, &before.Kind}, {&t.Status, &before.Status}} {
		if *m.to == "" {
			*m.to = *m.from
		}
	}
	for _, m := range []struct{ to, from *json.RawMessage }{{&t.Input, &before.Input}, {&t.Content, &before.Content}, {&t.Locations, &before.Locations}} {
		if !isSet(*m.to) {
			*m.to = *m.from
		}
	}
	return t
}

// sizeArguments returns the size of the members that can be large, in bytes.
func (t toolCall) sizeArguments() int {
	return len(t.Title) + len(t.Input) + len(t.Content) + len(t.Locations)
}

// withoutArguments returns the call without those members.
func (t toolCall) withoutArguments() toolCall {
	return toolCall{ID: t.ID, Name: t.Name, Kind: t.Kind, Status: t.Status}
}

type update struct {
	sessionID
	Update json.RawMessage `json:"update"`
}

type sessionUpdate struct {
	Is      string `json:"sessionUpdate"`
	Message string `json:"messageId"`
	Content block  `json:"content"`
	Entries []any  `json:"entries"`
	Cost    *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}
