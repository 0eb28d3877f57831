// Package sse writes server-sent events. Start with [Start], which answers a request, and [Pump], which sends values with heartbeats
// between them. It knows nothing of the events.
package sse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Media is the media type of a stream of events.
const Media = "text/event-stream"

const (
	heartbeat  = 15 * time.Second // between events
	writeLimit = 30 * time.Second // after which a reader that does not read is dropped; it may resume
)

// Writer writes server-sent events. It is used by one goroutine.
type Writer struct {
	w     http.ResponseWriter
	flush *http.ResponseController
}

// Start begins the answer to a request and returns its writer. An error means that the reader is gone.
func Start(w http.ResponseWriter) (*Writer, error) {
	w.Header().Set("Content-Type", Media)
	w.Header().Set("Cache-Control", "no-store")
	s := &Writer{w: w, flush: http.NewResponseController(w)}
	return s, s.write("retry: 2000\n\n")
}

func (s *Writer) write(text string) error {
	if err := s.flush.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.flush.Flush()
}

// Send writes data as JSON in an event of a type. An id of 0 leaves the reader's position as it is.
func (s *Writer) Send(id uint64, event string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	text := "event: " + event + "\ndata: " + string(raw) + "\n\n"
	if id > 0 {
		text = "id: " + strconv.FormatUint(id, 10) + "\n" + text
	}
	return s.write(text)
}

// Pump sends the values that produce yields, with heartbeats in between, until one of them or the reader ends. A slow reader
// holds produce up.
func Pump[T any](ctx context.Context, s *Writer, produce func(context.Context, func(T) error) error, send func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	items, ended := make(chan T), make(chan error, 1)
	go func() {
		ended <- produce(ctx, func(v T) error {
			select {
			case items <- v:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	end := func(err error) error {
		cancel()
		<-ended
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case v := <-items:
			if err := send(v); err != nil {
				return end(err)
			}
		case <-beat.C:
			if err := s.write(": alive\n\n"); err != nil {
				return end(err)
			}
		case err := <-ended:
			cancel()
			return err
		}
	}
}
