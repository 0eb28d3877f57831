package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

const (
	maxTries  = 4               // requests of one question
	longRest  = 2 * time.Minute // a provider that wants a longer one has its way: the question fails
	firstRest = time.Second     // without a Retry-After, doubled each time
	overhead  = 256             // tokens that a provider may add to a prompt: roles, separators, the name of a schema
)

// fault is one request that failed.
type fault struct {
	kind, message string
	again         bool          // another request may do better
	after         time.Duration // but not before
}

// errSlow ends a question that takes longer than it may.
var errSlow = errors.New("the question took too long")

// Ask puts a question. An error means that it could not be found out what the answer is, because ctx ended or the class
// cannot be asked here; all else is a reply. Requests that a server was too busy for are repeated, up to maxTries.
func (c *Client) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	class, ok := c.classes[q.Class]
	if !ok {
		return lattice.ModelReply{}, c.Ready(q.Class, false)
	}
	key, err := class.key()
	if err != nil {
		return lattice.ModelReply{}, fmt.Errorf("model class %s has no key: %w", q.Class, err)
	}
	failed := func(f *fault) lattice.ModelReply {
		return lattice.ModelReply{Provider: string(class.Provider), Model: class.Model, Kind: f.kind, Message: f.message}
	}
	if f := class.afford(q); f != nil {
		return failed(f), nil
	}
	limit := DefaultTimeout
	if class.Timeout > 0 {
		limit = class.Timeout
	}
	if q.TimeoutS > 0 {
		limit = time.Duration(q.TimeoutS * float64(time.Second))
	}
	timed, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	said := "" // by the requests before the last one
	for try := 1; ; try++ {
		reply, f := c.once(timed, class, key, q)
		if err := ctx.Err(); err != nil {
			return lattice.ModelReply{}, err
		}
		switch {
		case f == nil:
			return reply, nil
		case timed.Err() != nil:
			return failed(&fault{kind: ir.FailTimeout, message: fmt.Sprintf("%s did not answer within %v%s", class.Model, limit, said)}), nil
		case !f.again || try == maxTries || f.after > longRest:
			return failed(f), nil
		}
		said = "; before that: " + f.message
		c.rest(class, max(f.after, firstRest<<(try-1)))
	}
}

// afford refuses a question that could cost more than its budget. A token is at least a byte, so that the bytes of the
// prompt bound what it can cost.
func (c Class) afford(q lattice.ModelRequest) *fault {
	if q.BudgetUSD == nil {
		return nil
	}
	worst := c.cost(len(q.System)+len(q.User)+len(q.Schema)+overhead, q.MaxOutputTokens)
	if worst <= *q.BudgetUSD {
		return nil
	}
	return &fault{kind: ir.FailLimit, message: fmt.Sprintf("asking %s could cost $%.4f, and $%.4f of max_cost_usd is left", c.Name, worst, *q.BudgetUSD)}
}

// rest has all questions to an address wait.
func (c *Client) rest(class Class, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.now().Add(d); until.After(c.rests[class.base()]) {
		c.rests[class.base()] = until
	}
}

// pace waits for a request's turn.
func (c *Client) pace(ctx context.Context, class Class) error {
	now := c.now()
	c.mu.Lock()
	rest := c.rests[class.base()].Sub(now)
	c.mu.Unlock()
	turn := c.rate.ReserveN(now, 1)
	if err := c.sleep(ctx, max(rest, turn.DelayFrom(now))); err != nil {
		turn.CancelAt(c.now())
		return err
	}
	return nil
}

// statusFault says what a status other than 200 means.
func statusFault(status int, header http.Header, message string, now time.Time) *fault {
	f := &fault{kind: ir.FailProvider, message: fmt.Sprintf("the provider answered %d", status)}
	if message != "" {
		f.message += ": " + message
	}
	switch {
	case status == http.StatusTooManyRequests:
		f.kind, f.again = ir.FailRateLimited, true
	case status == http.StatusRequestTimeout, status >= 500:
		f.again = true
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.message += "; look at the key of this model class in the settings"
	case status == http.StatusNotFound:
		f.message += "; look at model and base_url of this model class in the settings"
	case status >= 300 && status < 400:
		f.message += "; redirects are not followed, set base_url to where it leads"
	}
	f.after = retryAfter(header.Get("Retry-After"), now)
	if f.after > longRest {
		f.message += fmt.Sprintf(" (to be asked again in %v)", f.after.Round(time.Second))
	}
	return f
}

// retryAfter reads seconds or a date; what is neither is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
