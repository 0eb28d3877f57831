package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

const (
	maxTries  = 4               // attempts of one request
	longRest  = 2 * time.Minute // a longer Retry-After fails the request
	firstRest = time.Second     // first backoff without a Retry-After, doubled each time
	overhead  = 256             // tokens that a provider may add to a prompt: roles, separators, the name of a schema
)

// errSlow is the cause of a context that exceeded the timeout of a request.
var errSlow = errors.New("the request took too long")

// Ask sends a request and returns the reply, which may be a failure. The error is non-nil only if ctx is done or the class is
// not configured. Ask retries temporary failures, up to maxTries attempts.
func (c *Client) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	class, ok := c.classes[q.Class]
	if !ok {
		return lattice.ModelReply{}, c.Ready(q.Class, false)
	}
	key, err := class.loadKey()
	if err != nil {
		return lattice.ModelReply{}, fmt.Errorf("model class %s has no key: %w", q.Class, err)
	}
	failed := func(f *fault) lattice.ModelReply {
		return lattice.ModelReply{Provider: string(class.Provider), Model: class.Model, Kind: f.kind, Message: f.message, Code: f.code, Hint: f.hint}
	}
	if f := class.checkBudget(q); f != nil {
		return failed(f), nil
	}
	limit := class.timeoutOf(q)
	timed, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	var last *fault // of the previous attempt
	for try := 1; ; try++ {
		reply, f := c.tryOnce(timed, class, key, q)
		if err := ctx.Err(); err != nil {
			return lattice.ModelReply{}, err
		}
		switch {
		case f == nil:
			return reply, nil
		case timed.Err() != nil:
			return failed(class.timeoutFault(limit, f, last)), nil
		case !f.again || try == maxTries || f.after > longRest:
			return failed(f), nil
		}
		last = f
		c.backOff(class, max(f.after, firstRest<<(try-1)))
	}
}

// timeoutOf returns the timeout of a request with all its retries.
func (c Class) timeoutOf(q lattice.ModelRequest) time.Duration {
	if q.TimeoutS > 0 {
		return time.Duration(q.TimeoutS * float64(time.Second))
	}
	return cmp.Or(c.Timeout, DefaultTimeout)
}

// Bound returns the most that a request can take. It sends nothing.
func (c *Client) Bound(q lattice.ModelRequest) lattice.ModelBound {
	class := c.classes[q.Class]
	return lattice.ModelBound{ModelUsage: class.bound(q), Priced: class.InputUSD != nil && class.OutputUSD != nil, Time: class.timeoutOf(q)}
}

// bound returns the most that one answer can cost. A token has at least one byte, so the size of the prompt is an upper bound
// of its tokens.
func (c Class) bound(q lattice.ModelRequest) lattice.ModelUsage {
	u := lattice.ModelUsage{InputTokens: len(q.System) + len(q.User) + len(q.Schema) + overhead, OutputTokens: q.MaxOutputTokens}
	u.CostUSD = c.costUSD(u.InputTokens, u.OutputTokens)
	return u
}

// checkBudget refuses a request that could cost more than its budget.
func (c Class) checkBudget(q lattice.ModelRequest) *fault {
	if q.BudgetUSD == nil {
		return nil
	}
	worst := c.bound(q).CostUSD
	if worst <= *q.BudgetUSD {
		return nil
	}
	return &fault{kind: expr.FailLimit, message: fmt.Sprintf("a request to %s could cost $%.4f, but only $%.4f of max_cost_usd is left", c.Name, worst, *q.BudgetUSD)}
}

// backOff delays all requests to the base URL of a class.
func (c *Client) backOff(class Class, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.now().Add(d); until.After(c.rests[class.baseURL()]) {
		c.rests[class.baseURL()] = until
	}
}

// waitTurn waits for the rate limiter (a token bucket) and for the backoff of the base URL.
func (c *Client) waitTurn(ctx context.Context, class Class) error {
	now := c.now()
	c.mu.Lock()
	rest := c.rests[class.baseURL()].Sub(now)
	c.mu.Unlock()
	turn := c.rate.ReserveN(now, 1)
	if err := c.sleep(ctx, max(rest, turn.DelayFrom(now))); err != nil {
		turn.CancelAt(c.now())
		return err
	}
	return nil
}
