package llm

import (
	"errors"
	"net/http"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Limits of the size of responses, in bytes.
const (
	maxBody  = 8 << 20  // of a response
	maxEvent = 1 << 20  // of an event of a stream
	maxText  = 1 << 20  // of the answer itself
	maxError = 64 << 10 // of the body of an error
)

// dialect encodes requests and decodes responses of one provider. It has no state.
type dialect interface {
	requestPath() string
	setHeaders(h http.Header, key string)
	requestBody(class Class, q lattice.ModelRequest) any
	// readWhole reads an answer that was not streamed.
	readWhole(a *answer, data []byte) error
	// readEvent reads one event of a stream into a.
	readEvent(a *answer, data []byte) error
}

// answer is a response, as far as it has been received.
type answer struct {
	model   string
	text    strings.Builder
	end     ending
	reason  string // the provider's name for end
	refusal string // the model's explanation
	in, out int
	counted bool // the provider reported in and out
	done    bool // the stream is complete
}

// ending is the reason why the model stopped; "" is not yet.
type ending string

const (
	endStop     ending = "stop"
	endLength   ending = "length"
	endRefused  ending = "refused"
	endTool     ending = "tool"
	endAnything ending = "other" // unknown
)

// errIdle is the cause of a context that was cancelled by the idle timeout.
var errIdle = errors.New("the response stopped")
