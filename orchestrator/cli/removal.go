package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// removal is the result of removing one thing.
type removal struct {
	Name    string          `json:"name"`
	Removed bool            `json:"removed"`
	Error   *protocol.Fault `json:"error,omitempty"`
}

// RemovalHelp is the part of a help text that commands which remove several things have in common.
const RemovalHelp = `
If something cannot be removed, the command names it and removes the rest. It ends with the code of the failure, or with 1 if
there are several with different codes. --json prints an array of {"name","removed","error"}.
`

// RemoveEach removes each of the named things, once, by remove, whose errors are ready for people. It goes on when one cannot
// be removed, until ctx ends.
func RemoveEach(ctx context.Context, console *Console, names []string, remove func(ctx context.Context, name string) error) error {
	done := []removal{}
	var failed []error
	seen := map[string]bool{}
	for i, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		err := ctx.Err()
		if err == nil {
			stop := console.ShowWait(fmt.Sprintf("remove %d of %d", i+1, len(names)))
			err = remove(ctx, name)
			stop()
		}
		done = append(done, removal{Name: name, Removed: err == nil, Error: faultOf(err)})
		if err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if console.JSON {
		if err := console.PrintJSON(done); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if len(failed) == 1 || ctx.Err() != nil {
		return failed[len(failed)-1]
	}
	code := console.Report(ctx, failed[0])
	for _, err := range failed[1:] {
		if console.Report(ctx, err) != code {
			code = protocol.ExitFailed
		}
	}
	return &ExitError{Code: code}
}

// faultOf is an error as machines read it, nil for none.
func faultOf(err error) *protocol.Fault {
	var p *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return &p.Fault
	}
	return &protocol.Fault{Code: "failed", Message: err.Error()}
}
