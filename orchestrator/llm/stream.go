package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/text"
)

// errLong is returned for a response that is too long.
var errLong = fmt.Errorf("the response is too long: the limits are %d bytes of text and %d in all", maxText, maxBody)

// errDialect is wrapped by errors for responses of another protocol.
var errDialect = errors.New("it is not a response of this provider's API")

// streamError is an error that a provider reports in the middle of a stream.
type streamError struct{ message string }

func (e *streamError) Error() string { return e.message }

// readAnswer reads a response, streamed or not, which it detects by the first bytes, not by the Content-Type. It calls
// progress after each read.
func readAnswer(a *answer, d dialect, from io.Reader, progress func()) error {
	limited := &io.LimitedReader{R: &meter{r: from, progress: progress}, N: maxBody + 1}
	body := bufio.NewReader(limited)
	err := readAs(a, d, body)
	switch {
	case limited.N <= 0 || a.text.Len() > maxText || errors.Is(err, bufio.ErrTooLong):
		return errLong
	case err != nil:
		return err
	case a.end == "":
		return errors.New("it was cut off")
	}
	return nil
}

func readAs(a *answer, d dialect, body *bufio.Reader) error {
	if mark, err := body.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = body.Discard(3)
	}
	for {
		c, err := body.ReadByte()
		if err != nil {
			return emptyError(err)
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			break
		}
	}
	if err := body.UnreadByte(); err != nil {
		return err
	}
	start, err := body.Peek(16)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case len(start) > 0 && start[0] == '{':
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return d.readWhole(a, data)
	case isEvents(start):
		return readEvents(body, func(data []byte) (bool, error) {
			err := d.readEvent(a, data)
			if a.text.Len() > maxText {
				return true, errLong
			}
			return a.done, err
		})
	}
	said, _ := io.ReadAll(io.LimitReader(body, maxLead)) // best effort
	return fmt.Errorf("%w: %s", errDialect, said)
}

// maxLead is the number of bytes that are read of an unknown response: more than is shown, so that a key can be redacted.
const maxLead = 4 << 10

func firstBytes(data []byte) []byte { return data[:min(len(data), maxLead)] }

// emptyError returns the error for a response that ended before it began.
func emptyError(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return err
}

// isEvents reports whether start can be the start of a stream of server-sent events.
func isEvents(start []byte) bool {
	return slices.ContainsFunc([]string{"data:", "event:", "id:", "retry:", ":"}, func(field string) bool { return bytes.HasPrefix(start, []byte(field)) })
}

// meter calls progress after each read.
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

// readEvents reads server-sent events until one of them was the last, or the stream ends. Lines end with \n or \r\n.
func readEvents(r io.Reader, each func(data []byte) (done bool, err error)) error {
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
		if len(line) > 0 || len(data) == 0 { // a comment, an event name or an empty line: only the data matter
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

// errorMessage returns the message in the body of an error response.
func errorMessage(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	var text string
	if json.Unmarshal(body, &e) == nil {
		switch {
		case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
			return inner.Message
		case json.Unmarshal(e.Error, &text) == nil && text != "":
			return text
		case e.Message != "":
			return e.Message
		}
	}
	return string(body)
}

// shortenText joins the lines of a message and truncates it to 500 characters.
func shortenText(s string) string {
	return text.HeadRunes(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "), 500)
}

// tokens is a token count of a provider. An invalid count decodes to -1 and is not an error; null and a missing count are 0.
type tokens int

// UnmarshalJSON never fails.
func (n *tokens) UnmarshalJSON(data []byte) error {
	const most = 1 << 30
	if *n = -1; string(data) == "null" {
		*n = 0
	}
	if f, err := strconv.ParseFloat(string(data), 64); err == nil && f >= 0 && f < most {
		*n = tokens(f)
	}
	return nil
}

// content is the text of a message: a string, or its parts.
type content string

// UnmarshalJSON decodes null and other types as "".
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = content(text)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return nil
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			all.WriteString(p.Text)
		}
	}
	*c = content(all.String())
	return nil
}
