package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/sprites/socket"
)

// FileWatch is a watch on files of a sprite. Close it.
type FileWatch struct {
	client *transport
	conn   *websocket.Conn
	pulse  socket.Pulse
	beat   sync.WaitGroup
	still  context.CancelFunc // ends the pulse
}

// ErrWatchOver says that the server ended a watch: the sprite was stopped, restored or deleted. A new watch can be asked for.
var ErrWatchOver = errors.New("the watch is over: the sprite was stopped, restored or deleted")

// Watch watches files and the entries of folders, with recursive also everything below them, new folders included.
// Next returns the events; the first one is of type "subscribed". A path that cannot be watched yields an event of
// type "error". A watch does not keep a sprite awake.
func (c Files) Watch(ctx context.Context, name string, paths []string, recursive bool) (*FileWatch, error) {
	conn, err := c.dialExec(ctx, spritePath(name, "fs", "watch"))
	if err != nil {
		return nil, describeError(err, "watch files in %s", name)
	}
	ask, err := json.Marshal(struct {
		Type       string   `json:"type"`
		Paths      []string `json:"paths"`
		Recursive  bool     `json:"recursive"`
		WorkingDir string   `json:"workingDir"`
	}{"subscribe", paths, recursive, "/"})
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, ask)
	}
	if err != nil {
		conn.CloseNow()
		return nil, describeError(err, "watch files in %s", name)
	}
	w := &FileWatch{client: c.transport, conn: conn, pulse: socket.Pulse{Conn: conn, Every: c.o.Probe}}
	w.pulse.Pause() // but for the time of Next
	beating, cancel := context.WithCancel(context.Background())
	w.still = cancel
	w.beat.Go(func() { w.pulse.Run(beating) })
	return w, nil
}

// Next waits for the next event. ErrWatchOver is the end that a server tells; after any error the watch is of no use. A server
// that is gone without a word is noticed while Next waits; one that asks whether we are there is answered only then, too, and
// may end a watch whose Next is not called for a minute.
func (w *FileWatch) Next(ctx context.Context) (FileEvent, error) {
	w.pulse.Resume()
	defer w.pulse.Pause()
	for {
		kind, message, err := socket.ReadMessage(ctx, w.conn)
		if websocket.CloseStatus(err) != -1 {
			return FileEvent{}, fmt.Errorf("%w (%w)", ErrWatchOver, err)
		}
		if err != nil && ctx.Err() != nil {
			return FileEvent{}, fmt.Errorf("watch files: %w", ctx.Err())
		}
		if err != nil {
			return FileEvent{}, describeError(w.client.connError(err), "watch files")
		}
		w.pulse.Heard()
		var e FileEvent
		if kind == websocket.MessageText && json.Unmarshal(message, &e) == nil {
			return e, nil
		}
	}
}

// Close ends the watch.
func (w *FileWatch) Close() error {
	w.still()
	err := w.conn.CloseNow()
	w.beat.Wait()
	return err
}
