package sprites

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// streamTimeout ends a checkpoint or restore whose context has no deadline of its own.
const streamTimeout = 10 * time.Minute

// Checkpoint saves the sprite's files and returns the new checkpoint. The error is nil only if the server said that the
// checkpoint is complete.
func (c *Client) Checkpoint(ctx context.Context, name, comment string) (Checkpoint, error) {
	body := map[string]string{}
	if comment != "" {
		body["comment"] = comment
	}
	id, err := c.progress(ctx, spritePath(name, "checkpoint"), body)
	if err != nil {
		return Checkpoint{}, describe(err, "checkpoint %s", name)
	}
	if id == "" {
		return Checkpoint{}, fmt.Errorf("checkpoint %s: the server named no checkpoint id", name)
	}
	var out Checkpoint
	err = c.call(ctx, http.MethodGet, spritePath(name, "checkpoints", id), nil, nil, &out)
	return out, describe(err, "checkpoint %s: read back %s", name, id)
}

// Checkpoints returns the checkpoints that people and runs made, newest first; not the automatic ones and not the
// pseudo entry [Current].
func (c *Client) Checkpoints(ctx context.Context, name string) ([]Checkpoint, error) {
	var all []Checkpoint
	err := c.call(ctx, http.MethodGet, spritePath(name, "checkpoints"), nil, nil, &all)
	if err != nil {
		return nil, describe(err, "list checkpoints of %s", name)
	}
	return slices.DeleteFunc(all, func(p Checkpoint) bool { return p.ID == Current }), nil
}

// DeleteCheckpoint removes one checkpoint.
func (c *Client) DeleteCheckpoint(ctx context.Context, name, id string) error {
	err := c.call(ctx, http.MethodDelete, spritePath(name, "checkpoints", id), nil, nil, nil)
	return describe(err, "delete checkpoint %s of %s", id, name)
}

// Restore puts the sprite's files back to checkpoint id. It ends every process in the sprite.
func (c *Client) Restore(ctx context.Context, name, id string) error {
	_, err := c.progress(ctx, spritePath(name, "checkpoints", id, "restore"), nil)
	return describe(err, "restore %s to %s", name, id)
}

// proseID finds the id in the text of servers that send no structured one.
var proseID = regexp.MustCompile(`\bv\d+\b`)

// maxProgressLine bounds one line of a progress stream.
const maxProgressLine = 1 << 20

// progress posts body and reads the NDJSON stream to its end. It returns the checkpoint id that the stream named, or the
// first failure that it reported.
func (c *Client) progress(ctx context.Context, path string, body any) (id string, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, streamTimeout)
		defer cancel()
	}
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return "", fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(data)
	}
	res, err := c.do(ctx, http.MethodPost, path, nil, payload)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	return readProgress(res.Body)
}

func readProgress(r io.Reader) (id string, err error) {
	var prose string
	var failure error
	complete := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxProgressLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p Progress
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return "", fmt.Errorf("progress stream holds a line that is no JSON: %w", err)
		}
		switch p.Type {
		case "error":
			if failure == nil {
				failure = streamError(p)
			}
		case "complete":
			complete = true
		}
		if p.CheckpointID != "" {
			id = p.CheckpointID
		} else if found := proseID.FindString(p.Data); found != "" {
			prose = found
		}
	}
	switch {
	case lines.Err() != nil:
		return "", fmt.Errorf("read progress stream: %w", lines.Err())
	case failure != nil:
		return "", failure
	case !complete:
		return "", errors.New("progress stream ended before the operation was complete")
	case id == "":
		id = prose
	}
	return id, nil
}

func streamError(p Progress) error {
	text := p.Error
	if text == "" {
		text = p.Data
	}
	return &APIError{Status: http.StatusOK, Message: strings.TrimSpace(text)}
}
