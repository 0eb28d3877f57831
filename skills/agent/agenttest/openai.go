package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// readResponses reads a request of OpenAI Responses. Its input is a flat list of messages, calls and their outputs.
func readResponses(body []byte) (conversation, error) {
	type tool struct {
		Type, Name string
		Tools      []struct{ Name string }
	}
	var in struct {
		Tools []tool
		Input []struct {
			Type, Role string
			Content    json.RawMessage
			Output     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return conversation{}, fmt.Errorf("read the request: %w", err)
	}
	var c conversation
	for _, t := range in.Tools {
		switch {
		case len(t.Tools) > 0:
			for _, member := range t.Tools {
				c.tools = append(c.tools, t.Name+"/"+member.Name)
			}
		case t.Name != "":
			c.tools = append(c.tools, t.Name)
		default:
			c.tools = append(c.tools, t.Type)
		}
	}
	for _, item := range in.Input {
		switch {
		case strings.HasSuffix(item.Type, "_output"):
			c.countSaid(false)
			c.results = append(c.results, textOf(item.Output))
		case item.Role == "user":
			c.countSaid(false)
			c.addText(textOf(item.Content))
		case item.Role == "assistant", strings.HasSuffix(item.Type, "_call"):
			c.countSaid(true)
		}
	}
	return c, nil
}

func writeResponses(w io.Writer, step Step, id string) {
	response := object{"id": "resp_" + id, "object": "response", "status": "in_progress", "output": []any{}}
	writeEvent(w, "response.created", object{"type": "response.created", "response": response})
	index := 0
	item := func(v object) {
		writeEvent(w, "response.output_item.added", object{"type": "response.output_item.added", "output_index": index, "item": v})
		writeEvent(w, "response.output_item.done", object{"type": "response.output_item.done", "output_index": index, "item": v})
		index++
	}
	if step.Text != "" {
		item(object{
			"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": step.Text, "annotations": []any{}}},
		})
	}
	for i, c := range step.Calls {
		call := object{
			"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", id, i), "call_id": fmt.Sprintf("call_%s_%d", id, i),
			"name": c.Name, "arguments": encodeJSON(c.Input), "status": "completed",
		}
		if c.Namespace != "" {
			call["namespace"] = c.Namespace
		}
		item(call)
	}
	writeEvent(w, "response.completed", object{"type": "response.completed", "response": object{
		"id": "resp_" + id, "object": "response", "status": "completed", "output": []any{},
		"usage": object{
			"input_tokens": step.In, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": step.Out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": step.In + step.Out,
		},
	}})
}

// readChat reads a request of OpenAI Chat Completions.
func readChat(body []byte) (conversation, error) {
	var in struct {
		Tools []struct {
			Function struct{ Name string }
		}
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
		c.tools = append(c.tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		switch m.Role {
		case "tool":
			c.results = append(c.results, textOf(m.Content))
		case "user":
			c.addText(textOf(m.Content))
		case "system", "developer":
			continue
		}
		c.countSaid(m.Role == "assistant")
	}
	return c, nil
}

func writeChat(w io.Writer, step Step, id string) {
	chunk := func(delta object, reason any, usage any) {
		writeEvent(w, "", object{
			"id": "chat_" + id, "object": "chat.completion.chunk", "created": 0, "model": "scripted", "usage": usage,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}},
		})
	}
	chunk(object{"role": "assistant", "content": step.Text}, nil, nil)
	reason := "stop"
	for i, c := range step.Calls {
		reason = "tool_calls"
		chunk(object{"tool_calls": []any{object{
			"index": i, "id": fmt.Sprintf("call_%s_%d", id, i), "type": "function",
			"function": object{"name": c.Name, "arguments": encodeJSON(c.Input)},
		}}}, nil, nil)
	}
	chunk(object{}, reason, object{
		"prompt_tokens": step.In, "completion_tokens": step.Out, "total_tokens": step.In + step.Out,
	})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func openaiFault(s Step) any {
	if s.Resets > 0 {
		return object{"error": object{"message": "The usage limit has been reached", "type": "usage_limit_reached", "plan_type": "plus", "resets_at": s.resetsAt()}}
	}
	return object{"error": object{"message": fmt.Sprintf("scripted fault %d", s.Status), "type": "scripted", "code": fmt.Sprint(s.Status)}}
}
