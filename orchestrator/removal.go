package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// removal says what became of one thing that was to be removed.
type removal struct {
	Name    string          `json:"name"`
	Removed bool            `json:"removed"`
	Error   *protocol.Fault `json:"error,omitempty"`
}

// removalHelp is the part of a help text that commands which remove several things have in common.
const removalHelp = `
What cannot be removed is named, and the others are removed all the same; the exit code is then that of the failure, or 1 of
several unlike ones. With --json an array of {"name","removed","error"} is printed.
`

// removeEach removes each of the named things, once, by remove, whose errors are ready for people. It goes on when one cannot
// be removed, until ctx ends.
func (d *deps) removeEach(ctx context.Context, names []string, remove func(ctx context.Context, name string) error) error {
	done := []removal{}
	var failed []error
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		err := ctx.Err()
		if err == nil {
			err = remove(ctx, name)
		}
		done = append(done, removal{Name: name, Removed: err == nil, Error: faultOf(err)})
		if err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if d.json {
		if err := d.printJSON(done); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if len(failed) == 1 || ctx.Err() != nil {
		return failed[len(failed)-1]
	}
	code := d.report(ctx, failed[0])
	for _, err := range failed[1:] {
		if d.report(ctx, err) != code {
			code = protocol.ExitFailed
		}
	}
	return &exitError{code: code}
}

// spriteOwners are the runs that have not ended, by the name of their sprite.
func (d *deps) spriteOwners(ctx context.Context) (map[string]api.RunView, error) {
	home := leader.Home(d.home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	runs, err := client.Runs(ctx, api.RunList{Open: true})
	if errors.Is(err, api.ErrGone) { // nobody leads: the sprites are remote
		runs, err = leader.Peek(home, 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	owners := map[string]api.RunView{}
	for _, r := range runs {
		if r.Sprite != "" && !r.Status.Ended() {
			owners[r.Sprite] = r
		}
	}
	return owners, err
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
