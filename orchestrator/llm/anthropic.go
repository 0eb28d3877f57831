package llm

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// messages is the dialect of Anthropic Messages.
type messages struct{}

type messagesRequest struct {
	Model       string        `json:"model"`
	MaxTokens   int           `json:"max_tokens"`
	System      string        `json:"system,omitempty"`
	Messages    []chatMessage `json:"messages"`
	Temperature *float64      `json:"temperature,omitempty"`
	Output      *outputConfig `json:"output_config,omitempty"`
	Stream      bool          `json:"stream"`
}

type outputConfig struct {
	Format outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

func (messages) requestPath() string { return "/messages" }

func (messages) setHeaders(h http.Header, key string) {
	h.Set("Anthropic-Version", "2023-06-01")
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

func (messages) requestBody(c Class, q lattice.ModelRequest) any {
	r := messagesRequest{Model: c.Model, MaxTokens: q.MaxOutputTokens, System: q.System, Messages: []chatMessage{{"user", q.User}}, Stream: true}
	if !c.NoTemperature {
		r.Temperature = &q.Temperature
	}
	if c.structuredMode() == StructuredSchema && isPortable(q.Schema) {
		r.Output = &outputConfig{outputFormat{Type: "json_schema", Schema: q.Schema}}
	}
	return r
}

type messagesUsage struct {
	Input         tokens `json:"input_tokens"`
	CacheCreation tokens `json:"cache_creation_input_tokens"`
	CacheRead     tokens `json:"cache_read_input_tokens"`
	Output        tokens `json:"output_tokens"`
}

type message struct {
	Type    string `json:"type"`
	Model   string `json:"model"`
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
}

func (messages) readWhole(a *answer, data []byte) error {
	var m message
	err := json.Unmarshal(data, &m)
	switch {
	case err != nil || m.Type != "message" && m.Type != "error":
		return fmt.Errorf("%w, a message: %s", errDialect, firstBytes(data))
	case m.Type == "error":
		return &streamError{errorMessage(data)}
	}
	a.model = m.Model
	for _, block := range m.Content {
		if block.Type == "text" {
			a.text.WriteString(block.Text)
		}
	}
	a.setUsage(m.Usage)
	a.setEnding(m.StopReason)
	return nil
}

func (messages) readEvent(a *answer, data []byte) error {
	var e struct {
		Type    string  `json:"type"`
		Message message `json:"message"` // message_start
		Delta   struct {
			Text       string `json:"text"`        // content_block_delta
			StopReason string `json:"stop_reason"` // message_delta
		} `json:"delta"`
		Usage json.RawMessage `json:"usage"` // message_delta; its input counts are optional
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%w, a stream of a message: %v", errDialect, err)
	}
	switch e.Type {
	case "message_start":
		a.model = e.Message.Model
		a.setUsage(e.Message.Usage)
	case "content_block_delta":
		a.text.WriteString(e.Delta.Text)
	case "message_delta":
		var u messagesUsage
		if json.Unmarshal(e.Usage, &u) == nil && a.counted && u.Output >= 0 {
			a.out = int(u.Output)
		}
		a.setEnding(e.Delta.StopReason)
	case "message_stop":
		a.done = true
	case "error":
		return &streamError{errorMessage(data)}
	}
	return nil // ignore other events: pings, starts and ends of blocks
}

func (a *answer) setUsage(usage json.RawMessage) {
	var u messagesUsage
	if json.Unmarshal(usage, &u) != nil || min(u.CacheCreation, u.CacheRead, u.Output) < 0 || u.Input < 0 {
		return
	}
	if in := u.Input + u.CacheCreation + u.CacheRead; in > 0 { // no prompt has no tokens
		a.in, a.out, a.counted = int(in), int(u.Output), true
	}
}

func (a *answer) setEnding(reason string) {
	switch reason {
	case "":
	case "end_turn", "stop_sequence":
		a.end = endStop
	case "max_tokens", "model_context_window_exceeded":
		a.end = endLength
	case "refusal":
		a.end = endRefused
	case "tool_use":
		a.end = endTool
	default:
		a.end, a.reason = endAnything, reason
	}
}
