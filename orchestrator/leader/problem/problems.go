// Package problem turns errors of the store, of its disk and of the Sprites API into errors that a user can act on: with an
// exit code, a code for machines and a remedy. Start with StoreProblem.
package problem

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SpriteProblem adds exit code, code and remedy to an error of the Sprites API or of the connection to it. It returns other
// errors unchanged.
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
		case answer.Code == sprites.CodeKeysKept:
			return refuse(protocol.ExitFailed, sprites.CodeKeysKept)
		case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
			return refuse(protocol.ExitDenied, "denied")
		case answer.Code == "isolation_unavailable":
			return fault.Unsafe("isolation_unavailable", "%v", err).WithHint("lattice doctor names the cause; or use a remote sprite (SPRITES_API_URL)")
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

// StoreProblem adds exit code, code and remedy to an error of the store or of its disk. It returns other errors unchanged.
func StoreProblem(err error) error {
	var p *fault.Error
	var f *store.Failure
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &f):
		exit, code, hint := f.Advice()
		return fault.New(exit, code, "%v", err).WithHint("%s", hint)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		exit, code, hint := store.ErrFull.Advice()
		return fault.New(exit, code, "%v", err).WithHint("%s", hint)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Denied("store_denied", "%v", err).WithHint("the state directory and all in it must be yours to write, or set LATTICE_HOME to another")
	}
	return err
}
