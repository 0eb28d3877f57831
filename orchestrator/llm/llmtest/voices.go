package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// asked holds the members that a request has in both dialects, read strictly where the vendors are strict.
type asked struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	MaxNew    int    `json:"max_completion_tokens"`
	System    string `json:"system"`
	Messages  []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Stream bool `json:"stream"`
}

func readAsked(body []byte) (asked, error) {
	var a asked
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("read the request: %w", err)
	}
	if a.Model == "" || len(a.Messages) == 0 {
		return a, errors.New("model and messages are required")
	}
	return a, nil
}

// chat is OpenAI's.
type chat struct{}

func (chat) requestKey(h http.Header) string {
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

func (chat) readRequest(body []byte) (Request, error) {
	a, err := readAsked(body)
	req := Request{Model: a.Model}
	for _, m := range a.Messages {
		switch m.Role {
		case "system", "developer":
			req.System += m.Content
		case "user":
			req.User += m.Content
		default:
			err = errors.Join(err, fmt.Errorf("role %q", m.Role))
		}
	}
	if a.MaxTokens > 0 && a.MaxNew > 0 {
		err = errors.Join(err, errors.New("max_tokens and max_completion_tokens exclude each other"))
	}
	return req, err
}

func (chat) finishReason(s Step) string {
	switch s.End {
	case "":
		return "stop"
	case "refusal":
		return "content_filter"
	}
	return s.End
}

func (chat) usageOf(s Step) any {
	if s.Uncounted {
		return nil
	}
	return object{"prompt_tokens": s.In, "completion_tokens": s.Out, "total_tokens": s.In + s.Out}
}

func (c chat) wholeReply(req Request, s Step) any {
	return object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": req.Model + "-0001", "usage": c.usageOf(s),
		"choices": []any{object{"index": 0, "message": object{"role": "assistant", "content": s.Text, "refusal": nil}, "finish_reason": c.finishReason(s), "logprobs": nil}},
	}
}

func chatChunk(model string, choices []any, usage any) string {
	return writeData(object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices, "usage": usage})
}

func (chat) openingEvents(req Request, _ Step) []string {
	return []string{": keep-alive\n\n", chatChunk(req.Model+"-0001", []any{object{"index": 0, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil}}, nil)}
}

func (chat) textEvent(text string) string {
	return chatChunk("", []any{object{"index": 0, "delta": object{"content": text}, "finish_reason": nil}}, nil)
}

func (chat) errorEvent() string {
	return writeData(object{"error": object{"message": "the engine is overloaded", "type": "server_error"}})
}

func (c chat) closingEvents(s Step) []string {
	return []string{
		chatChunk("", []any{object{"index": 0, "delta": object{}, "finish_reason": c.finishReason(s)}}, nil),
		chatChunk("", []any{}, c.usageOf(s)),
		"data: [DONE]\n\n",
	}
}

// messages is Anthropic's.
type messages struct{}

func (messages) requestKey(h http.Header) string { return h.Get("X-Api-Key") }

func (messages) readRequest(body []byte) (Request, error) {
	a, err := readAsked(body)
	if err == nil && a.MaxTokens <= 0 {
		err = errors.New("max_tokens is required")
	}
	req := Request{Model: a.Model, System: a.System}
	for i, m := range a.Messages {
		if m.Role != "user" && m.Role != "assistant" || i == 0 && m.Role != "user" {
			err = errors.Join(err, fmt.Errorf("message %d has role %q", i, m.Role))
		}
		req.User += m.Content
	}
	return req, err
}

func (messages) stopReason(s Step) string {
	switch s.End {
	case "":
		return "end_turn"
	case "length":
		return "max_tokens"
	}
	return s.End
}

func (m messages) wholeReply(req Request, s Step) any {
	return object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": req.Model + "-0001", "content": []any{object{"type": "text", "text": s.Text}},
		"stop_reason": m.stopReason(s), "stop_sequence": nil, "usage": object{"input_tokens": s.In, "output_tokens": s.Out},
	}
}

// namedEvent is an event as Anthropic sends them, its type also as its name.
func namedEvent(kind string, members object) string {
	members["type"] = kind
	return "event: " + kind + "\n" + writeData(members)
}

func (messages) openingEvents(req Request, s Step) []string {
	start := object{"id": "msg_1", "type": "message", "role": "assistant", "model": req.Model + "-0001", "content": []any{}, "stop_reason": nil}
	if !s.Uncounted {
		start["usage"] = object{"input_tokens": s.In, "output_tokens": 1}
	}
	return []string{
		namedEvent("message_start", object{"message": start}),
		namedEvent("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}}),
		namedEvent("ping", object{}),
	}
}

func (messages) textEvent(text string) string {
	return namedEvent("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
}

func (messages) errorEvent() string {
	return namedEvent("error", object{"error": object{"type": "overloaded_error", "message": "Overloaded"}})
}

func (m messages) closingEvents(s Step) []string {
	delta := object{"delta": object{"stop_reason": m.stopReason(s), "stop_sequence": nil}}
	if !s.Uncounted {
		delta["usage"] = object{"output_tokens": s.Out}
	}
	return []string{namedEvent("content_block_stop", object{"index": 0}), namedEvent("message_delta", delta), namedEvent("message_stop", object{})}
}
