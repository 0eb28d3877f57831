package modelroute

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
)

// Tokens is the usage that a response reports. Members are 0 or "" if the provider does not report them.
type Tokens struct {
	Model  string `json:"model,omitempty"`
	Input  int    `json:"input_tokens,omitempty"`  // read, cached ones included
	Cached int    `json:"cached_tokens,omitempty"` // of these, read from a cache
	Output int    `json:"output_tokens,omitempty"` // written, those of reasoning included
}

// maxAnswer bounds a line of a stream, and an answer that is one document, that tokens are looked for in.
const maxAnswer = 8 << 20

// answer is a document, or an event of a stream, of any provider.
type answer struct {
	Model         string       `json:"model"`
	ModelVersion  string       `json:"modelVersion"`
	Usage         *usage       `json:"usage"`
	UsageMetadata *geminiUsage `json:"usageMetadata"`
	Message       *answer      `json:"message"`  // of Anthropic's message_start
	Response      *answer      `json:"response"` // of OpenAI's response.completed
}

// usage is that of Anthropic and of both APIs of OpenAI.
type usage struct {
	Input         int `json:"input_tokens"`
	Output        int `json:"output_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"` // Anthropic: besides Input
	CacheCreation int `json:"cache_creation_input_tokens"`
	InputDetails  struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type geminiUsage struct {
	Prompt     int `json:"promptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount"`
}

// addUsage merges the usage of a response. Counts of a stream are totals, so that the last ones count.
func (t *Tokens) addUsage(a *answer) {
	if a == nil {
		return
	}
	set := func(to *int, n int) {
		if n > 0 {
			*to = n
		}
	}
	if name := a.Model + a.ModelVersion; name != "" {
		t.Model = name
	}
	if u := a.Usage; u != nil {
		set(&t.Input, u.Input+u.CacheRead+u.CacheCreation+u.Prompt)
		set(&t.Cached, u.CacheRead+u.InputDetails.Cached+u.PromptDetails.Cached)
		set(&t.Output, u.Output+u.Completion)
	}
	if u := a.UsageMetadata; u != nil {
		set(&t.Input, u.Prompt)
		set(&t.Cached, u.Cached)
		set(&t.Output, u.Candidates+u.Thoughts)
	}
	t.addUsage(a.Message)
	t.addUsage(a.Response)
}

// parse reads one document: an object, or Gemini's list of them.
func (t *Tokens) parse(doc []byte) {
	var list []answer
	var one answer
	switch {
	case json.Unmarshal(doc, &one) == nil:
		t.addUsage(&one)
	case json.Unmarshal(doc, &list) == nil:
		for i := range list {
			t.addUsage(&list[i])
		}
	}
}

// tokenReader passes an answer on and counts its tokens on the way.
type tokenReader struct {
	io.ReadCloser
	stream bool
	held   []byte // of a line, or of the document
	skip   bool   // held grew too long
	tokens Tokens
	done   func(Tokens)
}

// newTokenReader returns the body of an answer. done is called once, when it is closed.
func newTokenReader(res *http.Response, done func(Tokens)) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return &tokenReader{ReadCloser: res.Body, stream: kind == "text/event-stream", done: done}
}

// Read implements [io.Reader].
func (r *tokenReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		line, after, ended := rest, []byte(nil), false
		if r.stream {
			line, after, ended = bytes.Cut(rest, []byte("\n"))
		}
		if r.skip = r.skip || len(r.held)+len(line) > maxAnswer; !r.skip {
			r.held = append(r.held, line...)
		}
		if ended {
			r.endLine()
		}
		rest = after
	}
	return n, err
}

// endLine reads the event in the line that has ended, if there is one.
func (r *tokenReader) endLine() {
	if data, ok := bytes.CutPrefix(r.held, []byte("data:")); ok && !r.skip && bytes.Contains(data, []byte(`"usage`)) {
		r.tokens.parse(data)
	}
	r.held, r.skip = r.held[:0], false
}

// Close implements [io.Closer].
func (r *tokenReader) Close() error {
	err := r.ReadCloser.Close()
	if r.done == nil {
		return err
	}
	if r.stream {
		r.endLine()
	} else if !r.skip {
		r.tokens.parse(r.held)
	}
	r.held = nil
	r.done(r.tokens)
	r.done = nil
	return err
}
