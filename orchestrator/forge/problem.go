package forge

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Problem is an answer of a code host that is not success.
type Problem struct {
	Status  int
	Message string    // of the code host, cleaned; one line
	Retry   time.Time // for a limit of requests: when it ends; else zero
}

func (p *Problem) Error() string {
	if p.Message == "" {
		return fmt.Sprintf("the code host answered with status %d", p.Status)
	}
	return fmt.Sprintf("the code host answered with status %d: %s", p.Status, p.Message)
}

// Limited reports whether the code host refused the call because there were too many.
func (p *Problem) Limited() bool { return !p.Retry.IsZero() }

// Final reports whether asking again is pointless.
func (p *Problem) Final() bool {
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return p.Status < 500 && !p.Limited()
}

// IsNotFound reports whether err says that there is nothing at that place, or nothing that the account may see.
func IsNotFound(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && (p.Status == http.StatusNotFound || p.Status == http.StatusGone)
}
