package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Step is one answer of the model, or a fault in its place.
type Step struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	In    int    `json:"in,omitempty"`  // tokens reported as read; default 1000
	Out   int    `json:"out,omitempty"` // tokens reported as written; default 50

	Status     int `json:"status,omitempty"`        // an HTTP error instead of the answer
	Fails      int `json:"fails,omitempty"`         // how often Status is given before the answer; 0 for always
	RetryAfter int `json:"retry_after_s,omitempty"` // header of Status
	Resets     int `json:"resets_s,omitempty"`      // of Status 429, a usage limit: seconds until it ends
	DelayMS    int `json:"delay_ms,omitempty"`      // before anything is sent
	// Await is called before anything is sent.
	Await func() `json:"-"`
	// Truncate cuts the connection in the middle of the answer, as often as Fails says.
	Truncate bool `json:"truncate,omitempty"`
}

// resetsAt returns when the usage limit of s ends, in seconds since 1970.
func (s Step) resetsAt() int64 { return time.Now().Unix() + int64(s.Resets) }

// Call is a use of a tool.
type Call struct {
	Name string `json:"name"`
	// Namespace is that of a tool in OpenAI Responses: Codex offers the tools of an MCP server so.
	Namespace string `json:"namespace,omitempty"`
	Input     any    `json:"input"`
}

// conversation is the content of a request, independent of the vendor.
type conversation struct {
	tools   []string
	results []string
	prompt  []string
	before  []int // answers before each prompt
	answers int   // of the model: runs of its messages and calls
	model   bool
}

// addText notes a text of the user's side.
func (c *conversation) addText(text string) {
	c.prompt, c.before = append(c.prompt, text), append(c.before, c.answers)
}

// countSince counts the answers after the last prompt that holds a text.
func (c *conversation) countSince(text string) int {
	for i := len(c.prompt) - 1; i >= 0 && text != ""; i-- {
		if strings.Contains(c.prompt[i], text) {
			return c.answers - c.before[i]
		}
	}
	return c.answers
}

// countSaid notes whether a message is the model's; several in a row are one answer.
func (c *conversation) countSaid(byModel bool) {
	if byModel && !c.model {
		c.answers++
	}
	c.model = byModel
}

// writeEvent writes one server-sent event. Values of this package can be encoded.
func writeEvent(w io.Writer, name string, data any) {
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", encodeJSON(data))
}

func encodeJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("agenttest: the script holds what is no JSON: %v", err))
	}
	return string(raw)
}

// textOf finds the text in a string, a block or a list of blocks.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var block struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &block) == nil {
		if block.Text == "" && len(block.Content) > 0 {
			return textOf(block.Content)
		}
		return block.Text
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return string(raw)
	}
	var all []string
	for _, item := range list {
		if text := textOf(item); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n")
}
