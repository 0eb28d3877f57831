package modelroute

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// TestTokens reads answers in the forms in which providers give them, however they arrive.
func TestTokens(t *testing.T) {
	const stream, document = "text/event-stream; charset=utf-8", "application/json"
	long := strings.Repeat("x", maxAnswer)
	for name, c := range map[string]struct {
		kind, body string
		want       Tokens
	}{
		"Anthropic": {document, `{"type":"message","model":"claude-x","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":7}}`,
			Tokens{"claude-x", 115, 100, 7}},
		"Anthropic, streamed": {stream, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"hi\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":42}}\n\n",
			Tokens{"claude-x", 110, 100, 42}},
		"OpenAI Responses": {document, `{"object":"response","model":"gpt-x","usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4}}}`,
			Tokens{"gpt-x", 30, 20, 9}},
		"OpenAI Responses, streamed": {stream, "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-x\",\"usage\":null}}\r\n\r\n" +
			"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-x\",\"usage\":{\"input_tokens\":30,\"output_tokens\":9}}}", // cut off before the end of the line
			Tokens{"gpt-x", 30, 0, 9}},
		"OpenAI Chat": {document, `{"model":"gpt-x","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`, Tokens{"gpt-x", 12, 2, 3}},
		"OpenAI Chat, streamed": {stream, "data: {\"model\":\"gpt-x\",\"choices\":[{}],\"usage\":null}\n\ndata:{\"model\":\"gpt-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n",
			Tokens{"gpt-x", 12, 0, 3}},
		"Gemini": {document, `{"candidates":[],"modelVersion":"gemini-x","usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":2,"thoughtsTokenCount":5,"totalTokenCount":15}}`, Tokens{"gemini-x", 8, 0, 7}},
		"Gemini, a list": {document, `[{"modelVersion":"gemini-x","usageMetadata":{"promptTokenCount":8}},
{"usageMetadata":{"promptTokenCount":8,"cachedContentTokenCount":6,"candidatesTokenCount":4}}]`, Tokens{"gemini-x", 8, 6, 4}},
		"Gemini, streamed": {stream, "data: {\"modelVersion\":\"gemini-x\",\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":1}}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":4}}\n\n",
			Tokens{"gemini-x", 8, 0, 4}},
		"an error":              {document, `{"type":"error","error":{"message":"no"}}`, Tokens{}},
		"no JSON":               {"text/html", "<p>usage</p>", Tokens{}},
		"too long":              {document, `{"usage":{"input_tokens":1},"text":"` + long + `"}`, Tokens{}},
		"after a line too long": {stream, "data: {\"usage\":{\"input_tokens\":1},\"text\":\"" + long + "\"}\n\ndata: {\"usage\":{\"input_tokens\":2}}\n\n", Tokens{Input: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, reader := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader} {
				var got []Tokens
				res := &http.Response{Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(reader(strings.NewReader(c.body)))}
				body := newTokenReader(res, func(t Tokens) { got = append(got, t) })
				text, err := io.ReadAll(body)
				if err != nil || string(text) != c.body {
					t.Errorf("%s: the answer was changed: %v", how, err)
				}
				body.Close()
				body.Close()
				if len(got) != 1 || got[0] != c.want {
					t.Errorf("%s: %+v, want %+v once", how, got, c.want)
				}
			}
		})
	}
}
