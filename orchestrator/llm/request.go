package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
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
	path() string
	header(h http.Header, key string)
	body(class Class, q lattice.ModelRequest) any
	// whole reads an answer that was not streamed.
	whole(a *answer, data []byte) error
	// event reads one event of a stream into a.
	event(a *answer, data []byte) error
}

var dialects = map[Provider]dialect{OpenAI: chat{}, Anthropic: messages{}}

// answer is what has come so far.
type answer struct {
	model   string
	text    strings.Builder
	end     ending
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
	endAnything ending = "other" // of no kind that we know
)

// streamError is an error that a provider tells in the middle of its answer.
type streamError struct{ message string }

func (e *streamError) Error() string { return e.message }

// errIdle ends an answer that stands still.
var errIdle = errors.New("the answer stood still")

// errLong ends an answer that is none any more.
var errLong = fmt.Errorf("it has more than %d bytes", maxText)

// once makes one request, when it is its turn.
func (c *Client) once(ctx context.Context, class Class, key string, q lattice.ModelRequest) (lattice.ModelReply, *fault) {
	broken := func(again bool, format string, args ...any) (lattice.ModelReply, *fault) {
		return lattice.ModelReply{}, &fault{kind: ir.FailProvider, message: redact(fmt.Sprintf(format, args...), key), again: again}
	}
	if err := c.pace(ctx, class); err != nil {
		return broken(false, "wait for a turn: %v", err)
	}
	d := dialects[class.Provider]
	body, err := json.Marshal(d.body(class, q))
	if err != nil {
		return broken(false, "write the request: %v", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, class.base()+d.path(), bytes.NewReader(body))
	if err != nil {
		return broken(false, "write the request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	d.header(req.Header, key)
	resp, err := c.http.Do(req)
	if err != nil {
		if context.Cause(ctx) == errIdle {
			return c.stoodStill(class)
		}
		return broken(true, "ask %s at %s: %v", class.Model, class.base(), cause(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a cut explanation is still one
		return lattice.ModelReply{}, statusFault(resp.StatusCode, resp.Header, redact(explanation(text), key), c.now())
	}
	a := &answer{}
	err = read(a, d, resp, func() { idle.Reset(c.idle) })
	var told *streamError
	switch {
	case context.Cause(ctx) == errIdle:
		return c.stoodStill(class)
	case errors.As(err, &told):
		return broken(true, "%s broke off: %s", class.Model, told.message)
	case err != nil:
		return broken(err != errLong, "read the answer of %s: %v", class.Model, err)
	}
	return class.reply(q, a, key), nil
}

func (c *Client) stoodStill(class Class) (lattice.ModelReply, *fault) {
	return lattice.ModelReply{}, &fault{kind: ir.FailTimeout, message: fmt.Sprintf("%s sent nothing for %v", class.Model, c.idle), again: true}
}

// cause leaves out the method and URL that net/http puts before an error.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// read takes an answer in, streamed or whole; progress is called whenever some of it came.
func read(a *answer, d dialect, resp *http.Response, progress func()) error {
	body := &meter{r: io.LimitReader(resp.Body, maxBody), progress: progress}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if err := d.whole(a, data); err != nil {
			return err
		}
	} else if err := events(body, func(data []byte) (bool, error) {
		err := d.event(a, data)
		if a.text.Len() > maxText {
			return true, errLong
		}
		return a.done, err
	}); err != nil {
		return err
	}
	switch {
	case a.text.Len() > maxText:
		return errLong
	case a.end == "":
		return errors.New("it was cut off")
	}
	return nil
}

// meter tells of every read.
type meter struct {
	r        io.Reader
	progress func()
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 {
		m.progress()
	}
	return n, err
}

// events reads server-sent events until one of them was the last, or the stream ends.
func events(r io.Reader, each func(data []byte) (done bool, err error)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			if len(data) > maxEvent {
				return bufio.ErrTooLong
			}
			continue
		}
		if len(line) > 0 || len(data) == 0 { // a comment, a name, or nothing: the data say what they are
			continue
		}
		done, err := each(data)
		if done || err != nil {
			return err
		}
		data = data[:0]
	}
	return lines.Err()
}

// explanation finds the message in the body of an error.
func explanation(body []byte) string {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	var text string
	if json.Unmarshal(body, &e) == nil {
		switch {
		case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
			return short(inner.Message)
		case json.Unmarshal(e.Error, &text) == nil:
			return short(text)
		}
	}
	return short(string(body))
}

// short keeps what a person reads of a message.
func short(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// reply is a complete answer, and what its end means.
func (c Class) reply(q lattice.ModelRequest, a *answer, key string) lattice.ModelReply {
	r := lattice.ModelReply{Provider: string(c.Provider), Model: c.Model, Text: redact(strings.ToValidUTF8(a.text.String(), "\uFFFD"), key), Usage: c.usage(q, a)}
	if a.model != "" {
		r.Model = redact(short(a.model), key)
	}
	switch a.end {
	case endStop:
	case endLength:
		r.Kind, r.Message = ir.FailTruncated, fmt.Sprintf("%s came to the end of its %d tokens before that of its answer", c.Model, q.MaxOutputTokens)
	case endRefused:
		r.Kind, r.Message = ir.FailRefusal, c.Model+" refused to answer"
		if a.refusal != "" {
			r.Message += ": " + redact(short(a.refusal), key)
		}
	default:
		r.Kind, r.Message = ir.FailProvider, c.Model+" stopped for a reason that is not known here"
	}
	return r
}
