package retention

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Copies makes and removes the copies of sprites for forked runs and for items of a MAP.
type Copies struct{ Client *sprites.Client }

// noCopies returns the failure on a host that does not fork sprites.
func noCopies() protocol.Fault {
	return protocol.Fault{Code: "unsupported", Message: "this Sprites API does not copy sprites, so runs cannot be forked and items cannot have sprites of their own", Hint: "the embedded host does: unset SPRITES_API_URL"}
}

// CheckSupport fails if the host does not copy sprites. It requests a copy under the name of the sprite itself, which every
// host refuses.
func (c *Copies) CheckSupport(ctx context.Context, sprite string) error {
	if _, err := c.Client.Fork(ctx, sprite, sprites.Current, sprite, ""); CannotFork(err) {
		f := noCopies()
		return fault.Unsupported(f.Code, "%s", f.Message).WithHint("%s", f.Hint)
	}
	return nil
}

// copyLabel is the beginning of the label of a fork that a run made; the id of the run follows.
const copyLabel = "lattice-copy:"

// CopyLabel marks the copies of a run's sprite that its items have.
func CopyLabel(run string) string { return copyLabel + run }

func (c *Copies) Ensure(ctx context.Context, label string, from lattice.Pair, to string) error {
	made, err := c.Client.Get(ctx, to)
	if errors.Is(err, sprites.ErrNotFound) {
		made, err = c.Client.Fork(ctx, from.Sprite, from.CheckpointID, to, label)
	}
	switch {
	case err == nil && slices.Contains(made.Labels, label):
		return nil
	case err == nil:
		return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_taken", Message: "sprite " + to + " belongs to another owner"}}
	case CannotFork(err):
		return &lattice.Refusal{Fault: noCopies()}
	case errors.Is(err, sprites.ErrNotFound):
		return &lattice.Refusal{Fault: protocol.Fault{Code: "checkpoint_gone", Message: err.Error()}}
	}
	return fmt.Errorf("copy sprite %s: %w", from.Sprite, err)
}

// remove removes the copies of a run's items and calls, except those in stay. Copies of a failed run are kept with its own
// sprite, for inspection.
func (c *Copies) remove(ctx context.Context, run, sprite string, stay []string) error {
	if sprite == "" {
		return nil
	}
	all, err := c.Client.List(ctx, CopyPrefix(sprite))
	if err != nil {
		return fmt.Errorf("look for copies of sprite %s: %w", sprite, err)
	}
	for _, s := range all {
		if slices.Contains(s.Labels, CopyLabel(run)) && !slices.Contains(stay, s.Name) {
			err = errors.Join(err, c.Client.Delete(ctx, s.Name))
		}
	}
	return err
}

// List returns the names of the copies that the items of a failed run left, none if the host cannot be asked.
func (c *Copies) List(ctx context.Context, v api.RunView) []string {
	if v.Status != lattice.Failed || v.Sprite == "" {
		return nil
	}
	all, err := c.Client.List(ctx, CopyPrefix(v.Sprite))
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		if slices.Contains(s.Labels, CopyLabel(v.RunID)) {
			names = append(names, s.Name)
		}
	}
	return names
}

// CopyPrefix returns the prefix that the engine gives the names of a sprite's copies.
func CopyPrefix(sprite string) string { return fmt.Sprintf("%.40s-", sprite) }

// CannotFork reports whether an error says that the host does not fork sprites.
func CannotFork(err error) bool {
	var refused *sprites.APIError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		return refused.Code == "" // no such path, rather than no such sprite
	}
	return false
}
