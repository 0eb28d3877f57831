package sprites

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// streamTimeout ends a checkpoint or restore whose context has no deadline of its own.
const streamTimeout = 10 * time.Minute

// Checkpoint saves the sprite's files and returns the new checkpoint. The error is nil only if the server said that the
// checkpoint is complete. After an error that is [Uncertain] there may be one, which Checkpoints tells by its comment.
func (c *Client) Checkpoint(ctx context.Context, name, comment string) (Checkpoint, error) {
	body := map[string]any{}
	if comment != "" {
		body["comment"] = comment
	}
	return c.takeCheckpoint(ctx, name, body)
}

func (c *transport) takeCheckpoint(ctx context.Context, name string, body map[string]any) (Checkpoint, error) {
	if err := c.o.BeforeCheckpoint(ctx, name); err != nil {
		return Checkpoint{}, describeError(err, "checkpoint %s", name)
	}
	var id string
	err := c.retrySafely(ctx, false, func() (err error) {
		id, err = c.followProgress(ctx, spritePath(name, "checkpoint"), body)
		return err
	})
	if err != nil {
		return Checkpoint{}, describeError(err, "checkpoint %s", name)
	}
	if id == "" {
		return Checkpoint{}, fmt.Errorf("checkpoint %s: the server named no checkpoint id", name)
	}
	var out Checkpoint
	err = c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "checkpoints", id)}, &out)
	if err == nil && out.ID != id {
		err = fmt.Errorf("the answer is about checkpoint %q: %w", out.ID, errOdd)
	}
	return out, describeError(err, "checkpoint %s: read back %s", name, id)
}

// CheckpointDurable is Checkpoint that returns when the checkpoint survives a loss of power.
func (c *Client) CheckpointDurable(ctx context.Context, name, comment string) (Checkpoint, error) {
	return c.takeCheckpoint(ctx, name, map[string]any{"comment": comment, "durable": true})
}

// Checkpoints returns the checkpoints that people and runs made, newest first; not the automatic ones and not the
// pseudo entry [Current].
func (c *Client) Checkpoints(ctx context.Context, name string) ([]Checkpoint, error) {
	return c.listCheckpoints(ctx, name, url.Values{})
}

// AllCheckpoints is Checkpoints with those that the host made by itself before each restore.
func (c *Client) AllCheckpoints(ctx context.Context, name string) ([]Checkpoint, error) {
	return c.listCheckpoints(ctx, name, url.Values{"includeAuto": {"true"}})
}

func (c *transport) listCheckpoints(ctx context.Context, name string, query url.Values) ([]Checkpoint, error) {
	var all []Checkpoint
	query.Set("max_results", "200")
	for range maxPages {
		var page []Checkpoint
		if err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "checkpoints"), query: query}, &page); err != nil {
			return nil, describeError(err, "list checkpoints of %s", name)
		}
		if len(all) > 0 && len(page) > 0 && page[0].ID == all[0].ID {
			break // a host without pages sent the whole list again
		}
		if all = append(all, page...); len(page) != 200 {
			break
		}
		query.Set("before", page[199].ID)
	}
	return slices.DeleteFunc(all, func(p Checkpoint) bool { return p.ID == Current }), nil
}

// DeleteCheckpoint removes one checkpoint.
func (c *Client) DeleteCheckpoint(ctx context.Context, name, id string) error {
	return describeError(c.deleteResource(ctx, spritePath(name, "checkpoints", id), nil), "delete checkpoint %s of %s", id, name)
}

// Restore puts the sprite's files back to checkpoint id. It ends every process in the sprite. It is repeated when the outcome
// is unknown: the files are the same after the second time. The caller must not run anything in the sprite until it returns.
func (c *Client) Restore(ctx context.Context, name, id string) error {
	_ = c.o.BeforeCheckpoint(ctx, name) // a restore may be the remedy
	err := c.retrySafely(ctx, false, func() error {
		_, err := c.followProgress(ctx, spritePath(name, "checkpoints", id, "restore"), nil)
		return err
	})
	for attempt := 1; attempt < maxAttempts && Uncertain(err) && ctx.Err() == nil; attempt++ {
		if c.o.Wait(ctx, c.retryDelay(attempt, err)) != nil {
			break
		}
		_, err = c.followProgress(ctx, spritePath(name, "checkpoints", id, "restore"), nil)
	}
	return describeError(err, "restore %s to %s", name, id)
}

// Fork makes a new sprite with the files of checkpoint id of another, or of its present state ([Current]). A name that is
// taken is an *APIError with status 409, and a host that forks nothing an *APIError with 404, 405 or 501. The new sprite
// has the given labels and none of the other's.
func (c *Client) Fork(ctx context.Context, name, id, to string, labels ...string) (Sprite, error) {
	if id == Current && to != name {
		if err := c.o.BeforeCheckpoint(ctx, name); err != nil {
			return Sprite{}, describeError(err, "fork %s", name)
		}
	}
	var out Sprite
	in := struct {
		Name   string   `json:"name"`
		Labels []string `json:"labels,omitempty"`
	}{to, labels}
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "checkpoints", id, "fork"), in: in}, &out)
	if err == nil && out.Name != to {
		err = fmt.Errorf("the answer is about sprite %q: %w", out.Name, errOdd)
	}
	return out, describeError(err, "fork %s at %s into %s", name, id, to)
}

// Diff returns the changes between two checkpoints of a sprite, ordered by path. An empty to is the present state, an empty
// from the checkpoint that to descends from.
func (c *Client) Diff(ctx context.Context, name, from, to string) ([]Change, error) {
	query := url.Values{"from": {from}, "to": {to}}
	var out []Change
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "diff"), query: query}, &out)
	return out, describeError(err, "compare checkpoints of %s", name)
}

// Usage returns the space that a sprite takes on its host's disk.
func (c *Client) Usage(ctx context.Context, name string) (Usage, error) {
	var out Usage
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "usage")}, &out)
	return out, describeError(err, "measure %s", name)
}

// Verify has the host read the files of a checkpoint again. Damage is no error; see [Verified].
func (c *Client) Verify(ctx context.Context, name, id string) (Verified, error) {
	var out Verified
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "checkpoints", id, "verify")}, &out)
	return out, describeError(err, "verify checkpoint %s of %s", id, name)
}

// followProgress posts body once and reads the NDJSON stream to its end. It returns the checkpoint id that the stream named,
// or the first failure that it reported.
func (c *transport) followProgress(ctx context.Context, path string, body any) (id string, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, streamTimeout)
		defer cancel()
	}
	res, err := c.sendOnce(ctx, request{method: http.MethodPost, path: path, in: body})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	said, err := c.readProgress(res)
	return said.ID, err
}
