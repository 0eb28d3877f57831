package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const ExitCodes = `
Exit codes: 0 ok, 1 failed, 2 bad input, 3 not found, 4 permission denied, 5 network, 6 busy, 7 unsafe, 8 unsupported,
9 limit, 70 internal, 75 waiting for a person, 124 timeout, 130 stopped (the run can be resumed).`

// ExitError ends the command with a code of its own; a nil err was reported already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Report prints err for the user (and, with --json, for a machine on stderr) and returns the exit code.
func (c *Console) Report(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return exit.Code
	}
	if c.Explain != nil {
		err = c.Explain(err)
	}
	if err == context.Canceled && ctx.Err() != nil { // by Ctrl-C; one with more words says what was interrupted
		err = errors.New("interrupted")
	}
	err = classifyFile(ctx, err)
	var p *fault.Error
	if errors.As(err, &p) && c.JSON {
		_ = NewEncoder(c.Err).Encode(p) // nowhere left to report to
		return p.Exit
	}
	code := protocol.ExitFailed
	switch {
	case errors.As(err, &p):
		code = p.Exit
	case exit != nil:
		code = exit.Code
	case ctx.Err() != nil:
		code = protocol.ExitCancelled
	case errors.Is(err, errUsage):
		code = protocol.ExitBadInput
	}
	if p == nil && c.JSON {
		p := fault.New(code, "failed", "%v", err)
		switch code {
		case protocol.ExitBadInput:
			p = fault.BadInput("usage", "%s", strings.TrimSuffix(err.Error(), seeHelp)).WithHint("--help")
		case protocol.ExitCancelled:
			p = fault.Cancelled("cancelled", "%v", err)
		}
		_ = NewEncoder(c.Err).Encode(p) // nowhere left to report to
		return code
	}
	words := Sanitize(c.Err) // a sprite may have chosen some of them, such as names of files
	if errors.As(err, &p) {
		fmt.Fprintf(words, "lattice: %s\n", strings.TrimRight(err.Error(), "\n"))
		if p.Fault.Hint != "" {
			fmt.Fprintf(words, "  try: %s\n", p.Fault.Hint)
		}
		return code
	}
	fmt.Fprintf(words, "lattice: %v\n", err)
	return code
}

// classifyFile gives an error without a code about a file that is missing or must not be used its code.
func classifyFile(ctx context.Context, err error) error {
	var p *fault.Error
	var path *fs.PathError
	switch {
	case ctx.Err() != nil || errors.As(err, &p) || errors.Is(err, errUsage) || !errors.As(err, &path):
		return err
	case errors.Is(path, fs.ErrNotExist):
		return fault.NotFound("not_found", "%v", err)
	case errors.Is(path, fs.ErrPermission):
		return fault.Denied("denied", "%v", err)
	}
	return err
}

// errUsage marks errors of the command line itself.
var errUsage = errors.New("usage")

// seeHelp ends the error of a wrong command line.
const seeHelp = "; see --help"

type UsageError struct{ err error }

// UsageErrorf returns an error of the command line, which ends the command with 2.
func UsageErrorf(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (u UsageError) Error() string { return u.err.Error() + seeHelp }

func (u UsageError) Unwrap() []error { return []error{u.err, errUsage} }
