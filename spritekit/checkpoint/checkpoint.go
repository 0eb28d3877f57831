// Package checkpoint asks the sprite's host for checkpoints, through the unix socket /.sprite/api.sock that every
// sprite has inside. Look at Client first.
//
// A host answers with lines of JSON while it works. Failure arrives as a line of type "error" under status 200, so
// every line is read; a stream that ends without naming a checkpoint is a failure too. The HTTP client is a small one
// of its own: net/http would double the start-up time of every skill.
package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"
)

// Pending stands for the id of a checkpoint that the orchestrator takes after the exit and fills in, where the sprite
// has no socket to ask (DESIGN 22).
const Pending = "pending"

// ErrUnavailable is wrapped when there is no socket: this sprite cannot checkpoint itself.
var ErrUnavailable = errors.New("the sprite has no api socket")

// Client talks to the host. It makes a connection per request and holds none.
type Client struct {
	Socket string // "" means that there is none
}

// Info describes one checkpoint.
type Info struct {
	ID         string `json:"id"`
	CreateTime string `json:"create_time,omitempty"`
	Comment    string `json:"comment,omitempty"`
	IsAuto     bool   `json:"is_auto,omitempty"`
}

// Create takes a checkpoint and returns its id. The process that asks is not disturbed by it.
func (c Client) Create(ctx context.Context, comment string) (string, error) {
	body, err := json.Marshal(map[string]string{"comment": comment})
	if err != nil {
		return "", fmt.Errorf("create checkpoint: %w", err)
	}
	var id string
	err = c.sendRequest(ctx, "POST", "/v1/checkpoint", body, func(r io.Reader) error {
		id, err = readCreated(r)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create checkpoint: %w", err)
	}
	return id, nil
}

// List returns the sprite's checkpoints, newest first.
func (c Client) List(ctx context.Context) ([]Info, error) {
	var list []Info
	err := c.sendRequest(ctx, "GET", "/v1/checkpoints", nil, func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&list)
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return list, nil
}

// idIn finds the id in a host's text: "  ID: v1" or "Checkpoint v1 created successfully". "" when there is none, as in
// "Checkpoint created successfully".
func idIn(text string) string {
	words := strings.Fields(text)
	switch {
	case len(words) >= 2 && strings.EqualFold(words[0], "id:"):
		return words[1]
	case len(words) >= 3 && strings.EqualFold(words[0], "checkpoint") && strings.EqualFold(words[2], "created"):
		return words[1]
	}
	return ""
}

// validID accepts ids that can be a part of a URL and a file name.
func validID(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._-", c))
	})
}

// readCreated reads the progress of a checkpoint to its end. The id is a member of a line where the host is friendly,
// else it is in the text: "  ID: v1", "Checkpoint v1 created successfully".
func readCreated(r io.Reader) (string, error) {
	var id, failure string
	complete := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Type         string          `json:"type"`
			Data         json.RawMessage `json:"data"`
			Error        string          `json:"error"`
			ID           string          `json:"id"`
			CheckpointID string          `json:"checkpoint_id"`
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			text := lines.Text()
			for lines.Scan() { // a line that was cut off is not the host's fault
			}
			return "", errors.Join(fmt.Errorf("the host's answer is no JSON: %.200q", text), lines.Err())
		}
		var text string
		if json.Unmarshal(line.Data, &text) != nil {
			text = string(line.Data)
		}
		switch line.Type {
		case "error":
			failure = strings.TrimSpace(line.Error + " " + text)
		case "complete":
			complete = true
		}
		id = cmp.Or(line.CheckpointID, line.ID, id, idIn(text))
	}
	switch err := lines.Err(); {
	case err != nil:
		return "", err
	case failure != "":
		return "", fmt.Errorf("the host failed: %s", failure)
	case !complete:
		return "", errors.New("the host's answer ended too early")
	case !validID(id):
		return "", fmt.Errorf("the host named no checkpoint (%.100q)", id)
	}
	return id, nil
}

// sendRequest makes one request and hands the body of a 200 to read.
func (c Client) sendRequest(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) (err error) {
	if c.Socket == "" {
		return ErrUnavailable
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.Socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	// The deadline ends reads and writes that are under way when ctx ends.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: sprite\r\nConnection: close\r\nAccept: application/json\r\n", method, path)
	if body != nil {
		request += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if _, err := conn.Write(append([]byte(request+"\r\n"), body...)); err != nil {
		return err
	}
	return readResponse(bufio.NewReader(conn), read)
}
