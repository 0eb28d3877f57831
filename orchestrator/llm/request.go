package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

var dialects = map[Provider]dialect{OpenAI: chat{}, Anthropic: messages{}}

// tryOnce makes one attempt, after waiting for the rate limiter.
func (c *Client) tryOnce(ctx context.Context, class Class, key string, q lattice.ModelRequest) (lattice.ModelReply, *fault) {
	if err := c.waitTurn(ctx, class); err != nil {
		return lattice.ModelReply{}, &fault{kind: expr.FailProvider, message: fmt.Sprintf("wait for the rate limit: %v", err), unasked: true}
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

// sendRequest sends a request and reads the response.
func (c *Client) sendRequest(ctx context.Context, class Class, d dialect, key string, q lattice.ModelRequest, progress func()) (*answer, *fault) {
	said := func(text string) string { return shortenText(redactError(text, key)) } // redact first: truncation could leave a part of the key
	body, err := json.Marshal(d.requestBody(class, q))
	if err != nil {
		return nil, &fault{kind: expr.FailProvider, message: fmt.Sprintf("write the request: %v", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, class.baseURL()+d.requestPath(), bytes.NewReader(body))
	if err != nil {
		return nil, &fault{kind: expr.FailProvider, message: fmt.Sprintf("write the request: %v", err)}
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
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // best effort
		return nil, class.statusFault(resp.StatusCode, resp.Header, said(errorMessage(text)), c.now())
	}
	a := &answer{}
	if err := readAnswer(a, d, resp.Body, progress); err != nil {
		return nil, class.responseFault(said(err.Error()), err)
	}
	return a, nil
}

// makeReply converts a complete answer to a reply, with a failure if it did not end normally.
func (c Class) makeReply(q lattice.ModelRequest, a *answer, key string) lattice.ModelReply {
	r := lattice.ModelReply{Provider: string(c.Provider), Model: c.Model, Text: redactKey(strings.ToValidUTF8(a.text.String(), "\uFFFD"), key), Usage: c.countUsage(q, a)}
	if a.model != "" {
		r.Model = shortenText(redactError(a.model, key))
	}
	switch a.end {
	case endStop:
	case endLength:
		r.Kind, r.Message = expr.FailTruncated, fmt.Sprintf("%s used all of its %d tokens before the end of its answer", c.Model, q.MaxOutputTokens)
		r.Hint = "raise max_output_tokens of the node"
	case endRefused:
		r.Kind, r.Message = expr.FailRefusal, c.Model+" refused to answer"
		if a.refusal != "" {
			r.Message += ": " + shortenText(redactError(a.refusal, key))
		}
	case endTool: // a parse failure, so that the model is asked to repair it
		r.Kind, r.Message = expr.FailParse, c.Model+" called a tool instead of answering, but there are no tools"
	default:
		r.Kind, r.Message = expr.FailProvider, fmt.Sprintf("%s stopped for the unknown reason %q", c.Model, shortenText(redactError(a.reason, key)))
	}
	return r
}
