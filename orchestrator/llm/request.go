package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Bounds of what is read.
const (
	maxBody  = 8 << 20  // of one answer with everything around it
	maxEvent = 1 << 20  // of a stream
	maxText  = 1 << 20  // of the answer itself
	maxError = 64 << 10 // of the body of an error
)

// dialect is how one kind of provider is asked and how it answers. It keeps nothing.
type dialect interface {
	requestPath() string
	setHeaders(h http.Header, key string)
	requestBody(class Class, q lattice.ModelRequest) any
	// readWhole reads an answer that was not streamed.
	readWhole(a *answer, data []byte) error
	// readEvent reads one event of a stream into a.
	readEvent(a *answer, data []byte) error
}

var dialects = map[Provider]dialect{OpenAI: chat{}, Anthropic: messages{}}

// answer is what has come so far.
type answer struct {
	model   string
	text    strings.Builder
	end     ending
	reason  string // of the end, in the provider's words
	refusal string // what the model said in place of an answer
	in, out int
	counted bool // the provider said in and out
	done    bool // nothing comes any more
}

// ending says how the model stopped; "" is not yet.
type ending string

const (
	endStop     ending = "stop"
	endLength   ending = "length"
	endRefused  ending = "refused"
	endTool     ending = "tool"
	endAnything ending = "other" // of no kind that we know
)

// errIdle ends an answer that stands still.
var errIdle = errors.New("the answer stood still")

// tryOnce makes one request, when it is its turn.
func (c *Client) tryOnce(ctx context.Context, class Class, key string, q lattice.ModelRequest) (lattice.ModelReply, *fault) {
	if err := c.waitTurn(ctx, class); err != nil {
		return lattice.ModelReply{}, &fault{kind: ir.FailProvider, message: fmt.Sprintf("wait for a turn: %v", err), unasked: true}
	}
	d := dialects[class.Provider]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	a, f := c.sendRequest(ctx, class, d, key, q, func() { idle.Reset(c.idle) })
	switch {
	case f != nil && context.Cause(ctx) == errIdle:
		return lattice.ModelReply{}, class.idleFault(c.idle)
	case f != nil:
		return lattice.ModelReply{}, f
	}
	return class.makeReply(q, a, key), nil
}

// sendRequest sends the question and reads what comes.
func (c *Client) sendRequest(ctx context.Context, class Class, d dialect, key string, q lattice.ModelRequest, progress func()) (*answer, *fault) {
	said := func(text string) string { return shortenText(redactError(text, key)) } // in this order: no part of a key is left of a cut
	body, err := json.Marshal(d.requestBody(class, q))
	if err != nil {
		return nil, &fault{kind: ir.FailProvider, message: fmt.Sprintf("write the request: %v", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, class.baseURL()+d.requestPath(), bytes.NewReader(body))
	if err != nil {
		return nil, &fault{kind: ir.FailProvider, message: fmt.Sprintf("write the request: %v", err)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	d.setHeaders(req.Header, key)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, class.connectFault(said(unwrapURLError(err).Error()), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a cut explanation is still one
		return nil, class.statusFault(resp.StatusCode, resp.Header, said(errorMessage(text)), c.now())
	}
	a := &answer{}
	if err := readAnswer(a, d, resp.Body, progress); err != nil {
		return nil, class.responseFault(said(err.Error()), err)
	}
	return a, nil
}

// makeReply is a complete answer, and what its end means.
func (c Class) makeReply(q lattice.ModelRequest, a *answer, key string) lattice.ModelReply {
	r := lattice.ModelReply{Provider: string(c.Provider), Model: c.Model, Text: redactKey(strings.ToValidUTF8(a.text.String(), "\uFFFD"), key), Usage: c.countUsage(q, a)}
	if a.model != "" {
		r.Model = shortenText(redactError(a.model, key))
	}
	switch a.end {
	case endStop:
	case endLength:
		r.Kind, r.Message = ir.FailTruncated, fmt.Sprintf("%s came to the end of its %d tokens before that of its answer", c.Model, q.MaxOutputTokens)
		r.Hint = "raise max_output_tokens of the node"
	case endRefused:
		r.Kind, r.Message = ir.FailRefusal, c.Model+" refused to answer"
		if a.refusal != "" {
			r.Message += ": " + shortenText(redactError(a.refusal, key))
		}
	case endTool: // an answer, if a bad one: told so, the model may do better
		r.Kind, r.Message = ir.FailParse, c.Model+" called a tool in place of answering; there are none"
	default:
		r.Kind, r.Message = ir.FailProvider, fmt.Sprintf("%s stopped with %q, for which there is no meaning here", c.Model, shortenText(redactError(a.reason, key)))
	}
	return r
}
