package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// chat is the dialect of OpenAI chat completions.
type chat struct{}

type chatRequest struct {
	Model          string            `json:"model"`
	Messages       []chatMessage     `json:"messages"`
	MaxTokens      int               `json:"max_tokens,omitempty"`
	MaxCompletion  int               `json:"max_completion_tokens,omitempty"` // the vendor's newer name of max_tokens
	Temperature    *float64          `json:"temperature,omitempty"`
	Seed           *int              `json:"seed,omitempty"`
	ResponseFormat *chatFormat       `json:"response_format,omitempty"`
	Stream         bool              `json:"stream"`
	StreamOptions  chatStreamOptions `json:"stream_options"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatFormat struct {
	Type       string      `json:"type"`
	JSONSchema *chatSchema `json:"json_schema,omitempty"`
}

type chatSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

func (chat) requestPath() string { return "/chat/completions" }

func (chat) setHeaders(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (chat) requestBody(c Class, q lattice.ModelRequest) any {
	r := chatRequest{
		Model: c.Model, Messages: []chatMessage{{"system", q.System}, {"user", q.User}}, Seed: q.Seed,
		Stream: true, StreamOptions: chatStreamOptions{IncludeUsage: true},
	}
	if c.isVendors() {
		r.MaxCompletion = q.MaxOutputTokens
	} else {
		r.MaxTokens = q.MaxOutputTokens
	}
	if !c.NoTemperature {
		r.Temperature = &q.Temperature
	}
	switch c.structuredMode() {
	case StructuredSchema:
		if isPortable(q.Schema) {
			r.ResponseFormat = &chatFormat{Type: "json_schema", JSONSchema: &chatSchema{Name: schemaName(q.SchemaName), Schema: q.Schema, Strict: true}}
		}
	case StructuredJSON:
		r.ResponseFormat = &chatFormat{Type: "json_object"}
	case StructuredNone:
	}
	return r
}

// chatChunk is a whole answer, or a piece of a streamed one.
type chatChunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Message, Delta struct {
			Content content `json:"content"`
			Refusal content `json:"refusal"`
		}
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (chat) readWhole(a *answer, data []byte) error {
	if err := (chat{}).readEvent(a, data); err != nil {
		return err
	}
	if a.end == "" {
		return fmt.Errorf("%w, a chat completion: %s", errDialect, firstBytes(data))
	}
	return nil
}

func (chat) readEvent(a *answer, data []byte) error {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		a.done = true
		return nil
	}
	var chunk chatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%w, a chat completion: %v", errDialect, err)
	}
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
		return &streamError{errorMessage(data)}
	}
	if chunk.Model != "" {
		a.model = chunk.Model
	}
	var u struct {
		Prompt     tokens `json:"prompt_tokens"`
		Completion tokens `json:"completion_tokens"`
	}
	if json.Unmarshal(chunk.Usage, &u) == nil && u.Prompt > 0 && u.Completion >= 0 { // no prompt has no tokens
		a.in, a.out, a.counted = int(u.Prompt), int(u.Completion), true
	}
	if len(chunk.Choices) == 0 {
		return nil
	}
	choice := chunk.Choices[0]
	a.text.WriteString(string(choice.Message.Content + choice.Delta.Content))
	a.refusal += string(choice.Message.Refusal + choice.Delta.Refusal)
	switch choice.FinishReason {
	case "":
		return nil
	case "stop":
		a.end = endStop
	case "length":
		a.end = endLength
	case "content_filter":
		a.end = endRefused
	case "tool_calls", "function_call":
		a.end = endTool
	default:
		a.end, a.reason = endAnything, choice.FinishReason
	}
	if a.refusal != "" {
		a.end = endRefused
	}
	return nil
}
