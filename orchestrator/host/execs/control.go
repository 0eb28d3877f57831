package execs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A control channel is a socket for one operation after another. Envelopes are text messages, controlPrefix and then a
// JSON object; all other messages belong to the operation under way and look as on an exec socket, but for two dialects:
//
//	client → server   op.start {op, args} · {"type":"release"}, without the prefix: leave the operation · its input
//	server → client   op.ack · session_info, output, exit · op.complete {exitCode} | op.error {code, message}
//
// Some versions of clients put a stream number before their input, as on an exec socket; others send it as it is. The first
// byte of an operation's first input decides for all of it: 0 is the number of stdin, any other byte is input. Both end it by
// a single byte 4. Two inputs cannot be told apart, then: one that begins with a zero byte is taken for a numbered one and
// loses that byte, and a byte 4 in a message of its own ends unnumbered input. Terminals have no numbers.
//
// One client sends resizes and signals as binary messages; another, known by its User-Agent, does not, so that what looks
// like one is input. The only operation is exec. File and proxy operations have requests and
// sockets of their own, and the clients that know them here read the answers from two places at once: so hosts have no
// control channel unless Config.Control says so, and every client then falls back to those.
const controlPrefix = "control:"

// goClient begins the User-Agent of the client whose binary messages are input only.
const goClient = "sprites-go-sdk"

// maxPeek bounds binary messages that may be resizes or signals.
const maxPeek = 512

// envelope is a message about operations.
type envelope struct {
	Type string          `json:"type"`
	ID   json.RawMessage `json:"id,omitempty"`
	Op   string          `json:"op,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
}

// control is one control channel. One goroutine reads and starts operations; each operation has a goroutine that writes.
type control struct {
	execs *API
	name  string // of the sprite
	conn  *websocket.Conn
	ctx   context.Context
	pure  bool // binary messages are input only

	ops sync.WaitGroup

	mu   boltfile.Lock // guards the fields below; held while the end of an operation is told
	op   *operation
	some bool // there has been an operation
}

// operation is a command under way.
type operation struct {
	session *session
	client  *client
	input   framing // used by the goroutine that reads
}

// framing is how an operation's input comes.
type framing int

const (
	undecided framing = iota
	numbered          // after the number of its stream
	plainInput
)

// OpenControl opens a control channel, if this host has them.
func (ea *API) OpenControl(w http.ResponseWriter, r *http.Request) error {
	name, q := r.PathValue("name"), r.URL.Query()
	if !ea.Config.Control {
		return wire.Refuse(http.StatusNotFound, "not_found", "this host has no control channels; use exec")
	}
	if _, err := ea.Store.Sprite(name); err != nil {
		return err
	}
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	if op := q.Get("op"); op != "" && op != "exec" {
		return wire.Refuse(http.StatusBadRequest, "op.not_found", fmt.Sprintf("there is no operation %q; there is exec", op))
	}
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return nil // Accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(ea.Context) // not the request's, see serveSocket
	defer cancel()
	c := &control{execs: ea, name: name, conn: conn, ctx: ctx, pure: strings.HasPrefix(r.UserAgent(), goClient)}
	if q.Get("op") != "" {
		c.startOperation(envelope{Op: "exec"}, q, controlPrefix)
	}
	c.readMessages()
	cancel()
	c.releaseOperation()
	c.ops.Wait()
	return nil
}

// readMessages reads the client's messages until it leaves.
func (c *control) readMessages() {
	for {
		typ, message, err := wire.NextMessage(c.ctx, c.conn)
		if err != nil {
			return
		}
		if typ == websocket.MessageText {
			err = c.takeText(message)
		} else {
			err = c.takeInput(message)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, message)
		}
		if err != nil {
			return
		}
	}
}

// takeText takes an envelope, or a message to the operation.
func (c *control) takeText(message io.Reader) error {
	// An operation names its whole command, so this may be long.
	data, err := io.ReadAll(io.LimitReader(message, wire.MaxBody))
	if err != nil {
		return err
	}
	body, enveloped := strings.CutPrefix(string(data), controlPrefix)
	var e envelope
	if json.Unmarshal([]byte(body), &e) != nil {
		return nil
	}
	prefix := ""
	if enveloped {
		prefix = controlPrefix
	}
	switch {
	case e.Type == "release":
		c.releaseOperation()
	case e.Type == "op.start":
		args, err := e.decodeArguments()
		if err != nil {
			c.refuseOperation(e, prefix, wire.BadRequest(err.Error()))
			return nil
		}
		c.startOperation(e, args, prefix)
	case e.Type == "start": // of the older dialect, whose one operation is proxy
		c.refuseOperation(e, prefix, wire.Refuse(http.StatusNotFound, "op.not_found", "there is no such operation; there is exec"))
	case !enveloped:
		if op := c.activeOperation(); op != nil {
			return op.session.handleControl(strings.NewReader(body))
		}
	}
	return nil
}

// decodeArguments reads the arguments of an operation as if they stood in a query: an object of strings and lists, or a query.
func (e envelope) decodeArguments() (url.Values, error) {
	var query string
	if json.Unmarshal(e.Args, &query) == nil {
		return url.ParseQuery(query)
	}
	var args map[string]any
	if len(e.Args) > 0 {
		exact := json.NewDecoder(bytes.NewReader(e.Args))
		exact.UseNumber() // a float64 would round the number of a session
		if err := exact.Decode(&args); err != nil {
			return nil, fmt.Errorf("the arguments cannot be read: %w", err)
		}
	}
	q := url.Values{}
	for name, value := range args {
		list, many := value.([]any)
		if !many {
			list = []any{value}
		}
		for _, one := range list {
			switch one.(type) {
			case string, bool, json.Number:
				q.Add(name, fmt.Sprint(one))
			case nil:
			default:
				return nil, fmt.Errorf("the argument %q is no string, number or list of them", name)
			}
		}
	}
	return q, nil
}

// startOperation begins an operation: a command, or joining one that runs.
func (c *control) startOperation(e envelope, args url.Values, prefix string) {
	c.mu.Lock()
	busy := c.op != nil
	c.mu.Unlock()
	switch {
	case e.Op != "exec":
		c.refuseOperation(e, prefix, wire.Refuse(http.StatusNotFound, "op.not_found", fmt.Sprintf("there is no operation %.40q; there is exec", e.Op)))
		return
	case busy:
		c.refuseOperation(e, prefix, wire.Refuse(http.StatusConflict, "op.busy", "an operation is under way; one control channel does one at a time"))
		return
	}
	c.ops.Wait() // one that was released may still be writing
	op, in, err := c.beginCommand(args)
	failed, notStarted := startFailure(err)
	if err != nil && !notStarted {
		c.refuseOperation(e, prefix, err)
		return
	}
	c.mu.Lock()
	c.op, c.some = op, true
	c.mu.Unlock()
	c.ops.Go(func() {
		if !c.sendEnvelope(envelope{Type: "op.ack", ID: e.ID}, prefix) {
			op.endOperation()
			return
		}
		var code int
		told := false
		if notStarted {
			code, told = failed.Code, c.execs.tellFailure(c.ctx, c.conn, in, failed)
		} else {
			told = op.session.sendOutput(c.ctx, c.conn, op.client)
			code = op.session.code // written before talk heard of the exit
		}
		op.endOperation()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.op == op {
			c.op = nil
		}
		if told {
			c.sendEnvelope(envelope{Type: "op.complete", ID: e.ID, Args: fmt.Appendf(nil, `{"ok":true,"exitCode":%d}`, exitByte(code))}, prefix)
		}
	})
}

// beginCommand starts or joins a command.
func (c *control) beginCommand(args url.Values) (*operation, execRequest, error) {
	op := &operation{client: newClient(args.Get("id") == "")}
	if id := args.Get("id"); id != "" {
		s, release, err := c.execs.findSession(c.name, id)
		if err != nil {
			return nil, execRequest{}, err
		}
		op.session, op.client.release = s, release
		if !s.attachClient(op.client) {
			release()
			return nil, execRequest{}, noSession(id)
		}
		return op, execRequest{}, nil
	}
	in, err := parseExec(args)
	if err != nil {
		return nil, in, err
	}
	s, err := c.execs.startCommand(c.ctx, c.name, in, op.client)
	if failed, ok := startFailure(err); ok {
		return &operation{client: op.client}, in, failed
	}
	if err != nil {
		return nil, in, err
	}
	op.session = s
	return op, in, nil
}

// endOperation lets go of the command, which runs on for its time if it has not ended.
func (o *operation) endOperation() {
	o.client.leave()
	if o.session != nil {
		o.session.detachClient(o.client)
	}
}

// activeOperation returns the operation under way, nil for none or one whose command was never started.
func (c *control) activeOperation() *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.op == nil || c.op.session == nil {
		return nil
	}
	return c.op
}

// releaseOperation leaves the operation under way, if any: its goroutine then says no more.
func (c *control) releaseOperation() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.op != nil {
		c.op.client.leave()
		c.op = nil
	}
}

// takeInput takes a binary message. Input that comes after its operation has ended was sent before the client knew that.
func (c *control) takeInput(message io.Reader) error {
	op := c.activeOperation()
	if op == nil {
		c.mu.Lock()
		some := c.some
		c.mu.Unlock()
		if !some {
			c.refuseOperation(envelope{}, controlPrefix, wire.Refuse(http.StatusConflict, "op.not_active", "no operation is under way"))
		}
		return nil
	}
	s := op.session
	peeked := bufio.NewReaderSize(message, maxPeek)
	head, err := peeked.Peek(maxPeek)
	whole := errors.Is(err, io.EOF)
	switch {
	case err != nil && !whole:
		return err
	case len(head) == 0:
		return nil
	case !c.pure && op.input != plainInput && whole && aboutTerminal(head):
		return s.handleControl(peeked)
	case s.tty:
		return s.takeRaw(op.client, peeked)
	case whole && string(head) == "\x04":
		s.write(op.client, nil)
		return nil
	case op.input == undecided && head[0] == sprites.StreamStdin:
		op.input = numbered
	case op.input == undecided:
		op.input = plainInput
	}
	if op.input == plainInput {
		return s.takeRaw(op.client, peeked)
	}
	return s.takeInput(op.client, peeked)
}

// aboutTerminal recognises a resize or a signal among binary messages.
func aboutTerminal(message []byte) bool {
	var m sprites.Control
	return len(message) > 0 && message[0] == '{' && json.Unmarshal(message, &m) == nil && (m.Type == "resize" || m.Type == "signal")
}

// refuseOperation answers an operation that could not be started. Clients read the reason from one of two members.
func (c *control) refuseOperation(e envelope, prefix string, err error) {
	var code, text string
	if limited, ok := errors.AsType[*wire.LimitError](err); ok {
		code, text = limited.Code, limited.Message
	} else {
		refusal := wire.Classify(err)
		code, text = refusal.Code, cmp.Or(refusal.Message, refusal.Code)
	}
	args, err := json.Marshal(map[string]string{"code": code, "message": text, "error": text})
	if err == nil {
		c.sendEnvelope(envelope{Type: "op.error", ID: e.ID, Args: args}, prefix)
	}
}

func (c *control) sendEnvelope(e envelope, prefix string) bool {
	data, err := json.Marshal(e)
	return err == nil && c.conn.Write(c.ctx, websocket.MessageText, append([]byte(prefix), data...)) == nil
}
