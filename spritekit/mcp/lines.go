package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// batchesEnd is the first version of the protocol without batches.
const batchesEnd = "2025-06-18"

// lines reads the messages of a client, one a line. The library ends at the first line that is none; here it is answered
// as JSON-RPC has it, and the calls that run do not suffer for it.
type lines struct {
	io.Closer               // closes the input of from
	from      *bufio.Reader // lines of the client
	out       io.Writer     // to the client
	rest      []byte        // of a message that was not read to its end
	version   string        // that the client asked for
}

func newLines(in io.ReadCloser, out io.Writer) *lines {
	return &lines{Closer: in, from: bufio.NewReaderSize(in, 64<<10), out: out}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.nextLine()
		if err != nil {
			return 0, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if fault := l.findFault(line); fault != nil {
			if err := l.answerFault(line, fault); err != nil {
				return 0, err
			}
			continue
		}
		l.rest = append(bytes.TrimSpace(line), '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// nextLine returns a line; of one that is too long the first bytes beyond the limit are the end.
func (l *lines) nextLine() (line []byte, err error) {
	for {
		part, err := l.from.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxMessage+1-len(line))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil // the end comes again
		}
		return line, err
	}
}

// findFault says why a line is no message, nil when it is one.
func (l *lines) findFault(line []byte) *jsonrpc.Error {
	invalid := func(format string, args ...any) *jsonrpc.Error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	}
	if len(line) > maxMessage {
		return invalid("the message is larger than %d bytes", maxMessage)
	}
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON: a message is one line"}
	}
	messages := []json.RawMessage{line}
	if bytes.TrimSpace(line)[0] == '[' {
		if l.version == "" || l.version >= batchesEnd {
			return invalid("batches are not supported")
		}
		messages = nil // else the first would be decoded over the line itself
		if err := json.Unmarshal(line, &messages); err != nil || len(messages) == 0 {
			return invalid("the batch is empty")
		}
	}
	for _, raw := range messages {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return invalid("it is no JSON-RPC message: %v", err)
		}
		var asks struct{ ProtocolVersion string }
		if r, ok := m.(*jsonrpc.Request); ok && r.Method == "initialize" && json.Unmarshal(r.Params, &asks) == nil {
			l.version = asks.ProtocolVersion
		}
	}
	return nil
}

// answerFault reports the fault of a line to the client, with the id of the message if it is valid.
func (l *lines) answerFault(line []byte, fault *jsonrpc.Error) error {
	var m struct {
		ID any `json:"id"`
	}
	_ = json.Unmarshal(line, &m) // a value that is not an object has no id
	switch m.ID.(type) {
	case string, float64:
	default:
		m.ID = nil
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": fault})
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(answer, '\n'))
	return err
}

const (
	// MaxResult is the size of the largest result for a client, in bytes; a larger one is in a file of the workspace
	// that the result names, since it would fill a model's context rather than inform it.
	MaxResult = 64 << 10
	// defaultParallel is how many calls run side by side; others wait.
	defaultParallel = 8
	// maxMessage bounds one message of a client: the largest input and its envelope.
	maxMessage = skill.MaxInput + 1<<20
)
