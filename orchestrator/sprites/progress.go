package sprites

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// maxProgressLine bounds one line of an NDJSON answer, in bytes.
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

// readEvents yields the decoded lines of an NDJSON answer. If the answer does not end well, it yields an error last:
// [progress.ErrCut] if only the last line is invalid, because the connection may have been cut within it.
func readEvents[E any](ctx context.Context, c *transport, res *http.Response) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, maxProgressLine)
		var torn error
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			if torn != nil {
				yield(none, torn)
				return
			}
			var e E
			if err := json.Unmarshal(line, &e); err != nil {
				torn = unreadableAnswer(res, line, err)
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(none, fmt.Errorf("a line of the answer is longer than %d bytes: %w", maxProgressLine, errOdd))
		case err != nil && ctx.Err() != nil:
			yield(none, ctx.Err())
		case isForeign(torn):
			yield(none, torn)
		case err != nil:
			yield(none, c.connError(err))
		case torn != nil:
			yield(none, progress.ErrCut)
		}
	}
}
