package sprites

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// maxProgressLine bounds one line of a progress stream.
const maxProgressLine = 1 << 20

// readProgress reads every line of an NDJSON answer. It returns the outcome that they report, or the first failure: the status
// of the answer says nothing of it.
func (c *transport) readProgress(res *http.Response) (progress.Outcome, error) {
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxProgressLine)
	var p progress.Stream
	first := true
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if first && looksForeign(res.Header, line) {
			return progress.Outcome{}, &ForeignError{Status: res.StatusCode, Kind: res.Header.Get("Content-Type"), Text: singleLineExcerpt(line)}
		}
		if len(line) > 0 {
			first = false
			p.Take(line)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return progress.Outcome{}, fmt.Errorf("a line of the answer is longer than %d bytes: %w", maxProgressLine, errOdd)
	} else if err != nil && !p.Failed() {
		return progress.Outcome{}, c.connError(err)
	}
	out, err := p.End()
	if failure := new(progress.Failure); errors.As(err, &failure) {
		return out, &APIError{Status: http.StatusOK, Message: failure.Message}
	}
	return out, err
}
