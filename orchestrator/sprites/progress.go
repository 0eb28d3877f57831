package sprites

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// errCut says that a progress stream ended before the operation did: what became of it is not known.
var errCut = errors.New("the answer ended before the operation was complete")

// proseID finds the id in the text of servers that send no structured one.
var proseID = regexp.MustCompile(`\bv\d+\b`)

// maxProgressLine bounds one line of a progress stream.
const maxProgressLine = 1 << 20

// outcome is what the lines of a stream told in the end.
type outcome struct {
	id   string // of the checkpoint that they named
	exit *int   // code of the session that they were about
}

// readProgress reads every line of an NDJSON answer. It returns what they told, or the first failure that they reported:
// the status said nothing yet.
func (c *transport) readProgress(res *http.Response) (outcome, error) {
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxProgressLine)
	var p progress
	first := true
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if first && looksForeign(res.Header, line) {
			return outcome{}, &ForeignError{Status: res.StatusCode, Kind: res.Header.Get("Content-Type"), Text: excerpt(line)}
		}
		if len(line) > 0 {
			first = false
			p.take(line)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return outcome{}, fmt.Errorf("a line of the answer is longer than %d bytes: %w", maxProgressLine, errOdd)
	} else if err != nil && p.failure == nil {
		return outcome{}, c.broken(err)
	}
	return p.end()
}

// progress is what the lines of a stream have said so far.
type progress struct {
	id, prose string
	exit      *int
	failure   error
	complete  bool
	torn      bool // the last line was no JSON
}

// take reads one line. Kinds and members that it does not know say nothing.
func (p *progress) take(line []byte) {
	var in map[string]json.RawMessage
	if p.torn = !json.Valid(line); p.torn || json.Unmarshal(line, &in) != nil {
		return
	}
	kind, data, id := text(in["type"]), text(in["data"]), text(in["checkpoint_id"])
	// An error object in the stream's place is an error, too.
	if kind == "error" || kind == "" && len(in["error"]) > 0 {
		if p.failure == nil {
			p.failure = streamError(in["error"], data, text(in["message"]))
		}
		return
	}
	p.complete = p.complete || kind == "complete"
	var code *int
	if json.Unmarshal(in["exit_code"], &code) == nil && code != nil {
		p.exit = code
	}
	if id != "" {
		p.id = id
	} else if found := proseID.FindString(data); found != "" {
		p.prose = found
	}
}

// end is what they said in all.
func (p *progress) end() (outcome, error) {
	switch {
	case p.failure != nil:
		return outcome{}, p.failure
	case !p.complete || p.torn:
		return outcome{}, errCut
	}
	return outcome{id: cmp.Or(p.id, p.prose), exit: p.exit}, nil
}

// text reads a JSON string; anything else is "".
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func streamError(raw json.RawMessage, data, message string) error {
	for _, said := range []string{message, text(raw), data, string(raw), "the server gave no reason"} {
		if said = strings.TrimSpace(said); said != "" {
			return &APIError{Status: http.StatusOK, Message: said}
		}
	}
	return nil
}
