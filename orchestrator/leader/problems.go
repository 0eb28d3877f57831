package leader

import (
	"errors"
	"io"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SpriteProblem makes what the Sprites API answers, or that it does not, something that a user can act on: an exit code,
// a code for machines and a remedy. Other errors stay as they are.
func SpriteProblem(err error) error {
	var p *fault.Error
	var answer *sprites.APIError
	var conn *sprites.ConnError
	var lost *sprites.LostError
	var foreign *sprites.ForeignError
	refuse := func(exit int, code string) error {
		return fault.New(exit, code, "%v", err).WithHint("%s", sprites.Remedy(err))
	}
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &lost):
		return refuse(protocol.ExitNetwork, "connection_lost")
	case errors.Is(err, sprites.ErrNotFound):
		return refuse(protocol.ExitNotFound, "not_found")
	case errors.As(err, &answer):
		switch {
		case answer.Code == sprites.CodeDamaged, answer.Code == sprites.CodeUnavailable:
			return refuse(protocol.ExitFailed, answer.Code)
		case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
			return refuse(protocol.ExitDenied, "denied")
		case answer.Code == "isolation_unavailable":
			return fault.Unsafe("isolation_unavailable", "%v", err).WithHint("lattice doctor, which says what is missing, or use a remote sprite (SPRITES_API_URL)")
		case answer.Status == http.StatusConflict:
			return refuse(protocol.ExitBusy, "conflict")
		case answer.Status == http.StatusTooManyRequests:
			return refuse(protocol.ExitBusy, "limited")
		case answer.Code == sprites.CodeShortage:
			return refuse(protocol.ExitBusy, sprites.CodeShortage)
		case answer.Status == http.StatusInsufficientStorage:
			return refuse(protocol.ExitLimit, "disk_full")
		case answer.Status >= 400 && answer.Status < 500:
			return refuse(protocol.ExitBadInput, "refused")
		case answer.Status == http.StatusBadGateway, answer.Status == http.StatusServiceUnavailable, answer.Status == http.StatusGatewayTimeout:
			return refuse(protocol.ExitNetwork, "unavailable")
		}
	case errors.As(err, &foreign), errors.As(err, &conn), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(protocol.ExitNetwork, "connection_failed")
	}
	return err
}

// stopProblem is why nobody drives a run any more, nil when nothing can be done about it. The run goes on where it was
// when it is told to: what is uncertain is looked into first.
func stopProblem(run string, err error) *fault.Error {
	var p *fault.Error
	if errors.As(StoreProblem(err), &p) {
		return p
	}
	if !errors.As(SpriteProblem(err), &p) {
		return nil
	}
	goOn := "lattice resume " + run
	if p.Fault.Hint == "" || sprites.Uncertain(err) {
		p.Fault.Hint = goOn
	} else {
		p.Fault.Hint += ", then: " + goOn
	}
	return p
}
