package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
)

// object is a JSON object of an answer.
type object = map[string]any

// readMessages reads a request of Anthropic Messages.
func readMessages(body []byte) (conversation, error) {
	var in struct {
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return conversation{}, fmt.Errorf("read the request: %w", err)
	}
	var c conversation
	for _, t := range in.Tools {
		c.tools = append(c.tools, t.Name)
	}
	for _, m := range in.Messages {
		if m.Role == "system" { // reminders between the turns
			continue
		}
		c.countSaid(m.Role == "assistant")
		if m.Role == "assistant" {
			continue
		}
		var blocks []struct {
			Type    string
			Text    string
			Content json.RawMessage
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			c.addText(textOf(m.Content))
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				c.results = append(c.results, textOf(b.Content))
			} else {
				c.addText(b.Text)
			}
		}
	}
	return c, nil
}

func writeMessages(w io.Writer, step Step, id string) {
	usage := object{"input_tokens": step.In, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
	writeEvent(w, "message_start", object{"type": "message_start", "message": object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": "scripted", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	index := 0
	block := func(start, delta object) {
		writeEvent(w, "content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		writeEvent(w, "content_block_delta", object{"type": "content_block_delta", "index": index, "delta": delta})
		writeEvent(w, "content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	if step.Text != "" {
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": step.Text})
	}
	reason := "end_turn"
	for i, c := range step.Calls {
		reason = "tool_use"
		block(object{"type": "tool_use", "id": fmt.Sprintf("toolu_%s_%d", id, i), "name": c.Name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": encodeJSON(c.Input)})
	}
	writeEvent(w, "message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": step.Out},
	})
	writeEvent(w, "message_stop", object{"type": "message_stop"})
}

func messagesFault(s Step) any {
	kinds := map[int]string{400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
	kind, ok := kinds[s.Status]
	if !ok {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": fmt.Sprintf("scripted fault %d", s.Status)}}
}
