// Package fault holds the one error type that people and programs act on, for skills and for lattice: a stable code, a
// sentence, a hint with the remedy, and the exit code of the command that ends with it. Start with Error; there is a
// constructor for each exit code.
//
// An error that is not an *Error has no meaning for a caller: it is reported as it is, or as "internal". The package
// decides nothing and does no I/O.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Error is a failure that a caller can act on. Exit is one of the protocol.Exit codes; 0 counts as protocol.ExitFailed.
// As JSON it is the body of every error answer of lattice.
type Error struct {
	protocol.Fault `json:"error"`
	Exit           int `json:"exit"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// New returns an error with this exit code, code and message. Failures that pass by themselves (network, busy, timeout)
// are retryable.
func New(exit int, code, format string, args ...any) *Error {
	retryable := exit == protocol.ExitNetwork || exit == protocol.ExitBusy || exit == protocol.ExitTimeout
	return &Error{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, args...), Retryable: retryable}, Exit: exit}
}

// Failed reports that the work itself failed (exit 1).
func Failed(code, format string, args ...any) *Error {
	return New(protocol.ExitFailed, code, format, args...)
}

// BadInput refuses an input or an argument (exit 2).
func BadInput(code, format string, args ...any) *Error {
	return New(protocol.ExitBadInput, code, format, args...)
}

// NotFound reports that the input names something that does not exist (exit 3).
func NotFound(code, format string, args ...any) *Error {
	return New(protocol.ExitNotFound, code, format, args...)
}

// Denied reports a missing permission (exit 4).
func Denied(code, format string, args ...any) *Error {
	return New(protocol.ExitDenied, code, format, args...)
}

// Network reports a failed connection; trying again may help (exit 5).
func Network(code, format string, args ...any) *Error {
	return New(protocol.ExitNetwork, code, format, args...)
}

// Busy reports that a resource is in use; trying again helps (exit 6).
func Busy(code, format string, args ...any) *Error {
	return New(protocol.ExitBusy, code, format, args...)
}

// Unsafe refuses an operation that could do harm (exit 7).
func Unsafe(code, format string, args ...any) *Error {
	return New(protocol.ExitUnsafe, code, format, args...)
}

// Unsupported reports that this machine or sprite cannot do it (exit 8).
func Unsupported(code, format string, args ...any) *Error {
	return New(protocol.ExitUnsupported, code, format, args...)
}

// Limit reports that a limit was reached (exit 9).
func Limit(code, format string, args ...any) *Error {
	return New(protocol.ExitLimit, code, format, args...)
}

// Internal reports a fault of this program (exit 70).
func Internal(code, format string, args ...any) *Error {
	return New(protocol.ExitInternal, code, format, args...)
}

// Timeout reports that the time given was used up (exit 124).
func Timeout(code, format string, args ...any) *Error {
	return New(protocol.ExitTimeout, code, format, args...)
}

// Cancelled reports that the work was cancelled (exit 130).
func Cancelled(code, format string, args ...any) *Error {
	return New(protocol.ExitCancelled, code, format, args...)
}

// WithHint returns a copy of e that tells a person the remedy.
func (e Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return &e
}

// WithDetails returns a copy of e with details for a program. Details that cannot be encoded as JSON become their text.
func (e Error) WithDetails(details any) *Error {
	raw, err := json.Marshal(details)
	if err != nil {
		raw, _ = json.Marshal(fmt.Sprint(details)) // a string always encodes
	}
	e.Details = raw
	return &e
}

// As returns the *Error in the chain of err, or nil.
func As(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return nil
}

// HasCode reports whether an *Error in the chain of err has one of the codes.
func HasCode(err error, codes ...string) bool {
	e := As(err)
	return e != nil && slices.Contains(codes, e.Code)
}
