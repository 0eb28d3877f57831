package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// Update holds the changes for Client.Update; a nil member changes nothing.
type Update struct {
	Labels      *[]string // all that the sprite has from then on
	URLSettings *URLSettings
}

// Update changes a sprite's settings and returns the sprite.
func (c *Client) Update(ctx context.Context, name string, u Update) (Sprite, error) {
	in := map[string]any{}
	if u.Labels != nil {
		if in["labels"] = *u.Labels; len(*u.Labels) == 0 {
			in = map[string]any{"clear_labels": true}
		}
	}
	if u.URLSettings != nil {
		in["url_settings"] = u.URLSettings
	}
	var out Sprite
	err := c.sendRequest(ctx, request{method: http.MethodPut, path: spritePath(name), in: in}, &out)
	if err == nil && out.Name != name {
		err = fmt.Errorf("the answer is about sprite %q: %w", out.Name, errOdd)
	}
	return out, describeError(err, "update sprite %s", name)
}

// Restart ends all processes of a sprite and starts the sprite again; its files stay. It helps if a sprite no longer answers.
// After a broken connection the request is not repeated, because that would end processes started since.
func (c *Client) Restart(ctx context.Context, name string) error {
	return describeError(c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "restart")}, nil), "restart sprite %s", name)
}

// Health is the result of a sprite's self-test.
type Health struct {
	Name      string          `json:"sprite_name"`
	Status    string          `json:"status"` // healthy, or the fault
	Reason    string          `json:"reason,omitempty"`
	CheckedAt time.Time       `json:"checked_at"`
	Elapsed   json.RawMessage `json:"elapsed,omitempty"` // milliseconds, or a text
}

// Check wakes a sprite and has it show that commands run in it.
func (c *Client) Check(ctx context.Context, name string) (Health, error) {
	var out Health
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "check")}, &out)
	if err == nil && out.Status == "" {
		err = fmt.Errorf("the answer has no status: %w", errOdd)
	}
	return out, describeError(err, "check sprite %s", name)
}

// SpriteState is a line of the watched list: how a sprite stands now.
type SpriteState struct {
	Type           string     `json:"type,omitempty"` // "heartbeat" says that the host is there, and names no sprite
	Name           string     `json:"name,omitempty"`
	Status         string     `json:"status,omitempty"` // cold | warm | running | deleted
	RunningVersion string     `json:"running_version,omitempty"`
	LastRunningAt  *time.Time `json:"last_running_at,omitempty"`
	LastWarmingAt  *time.Time `json:"last_warming_at,omitempty"`
	Timestamp      time.Time  `json:"timestamp"`
}

// WatchList calls each with how every sprite stands whose name begins with prefix, and then with each change and heartbeat,
// until each fails, ctx ends or the connection does. It never returns nil: an end of the stream is no end of the changes.
func (c *Client) WatchList(ctx context.Context, prefix string, each func(SpriteState) error) error {
	var res *http.Response
	err := c.retrySafely(ctx, true, func() (err error) {
		res, err = c.sendOnce(ctx, request{method: http.MethodGet, path: "/v1/sprites", query: url.Values{"prefix": {prefix}}, accept: "application/x-ndjson"})
		return err
	})
	if err != nil {
		return describeError(err, "watch the list of sprites")
	}
	defer res.Body.Close()
	for state, err := range readEvents[SpriteState](ctx, c.transport, res) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, progress.ErrCut) {
			break
		}
		if err == nil && state.Name == "" && state.Type != "heartbeat" {
			err = fmt.Errorf("a line names no sprite; this host's list cannot be watched: %w", errOdd)
		}
		if err != nil {
			return describeError(err, "watch the list of sprites")
		}
		if err := each(state); err != nil {
			return err
		}
	}
	return describeError(c.connError(io.EOF), "watch the list of sprites")
}
