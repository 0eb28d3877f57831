package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
)

// readGemini reads a request of Gemini's generateContent.
func readGemini(body []byte) (conversation, error) {
	var in struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string } `json:"functionDeclarations"`
		}
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse *struct {
					Response json.RawMessage
				} `json:"functionResponse"`
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return conversation{}, fmt.Errorf("read the request: %w", err)
	}
	var c conversation
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			c.tools = append(c.tools, f.Name)
		}
	}
	for _, content := range in.Contents {
		c.countSaid(content.Role == "model")
		if content.Role == "model" {
			continue
		}
		for _, p := range content.Parts {
			if p.FunctionResponse != nil {
				c.results = append(c.results, string(p.FunctionResponse.Response))
			} else {
				c.addText(p.Text)
			}
		}
	}
	return c, nil
}

func writeGemini(w io.Writer, step Step, id string) {
	parts := []any{}
	if step.Text != "" {
		parts = append(parts, object{"text": step.Text})
	}
	for i, c := range step.Calls {
		parts = append(parts, object{"functionCall": object{"id": fmt.Sprintf("call_%s_%d", id, i), "name": c.Name, "args": c.Input}})
	}
	writeEvent(w, "", object{
		"candidates":    []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": parts}}},
		"usageMetadata": object{"promptTokenCount": step.In, "candidatesTokenCount": step.Out, "totalTokenCount": step.In + step.Out},
	})
}

func geminiFault(s Step) any {
	if s.Resets > 0 {
		return object{"error": object{"code": s.Status, "message": fmt.Sprintf("You exceeded your current quota. Please retry in %ds.", s.Resets), "status": "RESOURCE_EXHAUSTED"}}
	}
	return object{"error": object{"code": s.Status, "message": fmt.Sprintf("scripted fault %d", s.Status), "status": "SCRIPTED"}}
}
