// Package sse writes server-sent events. Start with [Start], which answers a request, and [Pump], which sends values with heartbeats
// between them. It knows nothing of the events.
package sse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	w       http.ResponseWriter
	control *http.ResponseController
	unsent  int    // events that were written since the last flush
	joined  []byte // of SendEncoded
}

// batch is the number of events after which a Writer flushes, even if more are ready.
const batch = 64

// maxJoined is the size from which events are not joined any more.
const maxJoined = 16 << 10

// ahead is the number of values that Pump takes before the reader has those before them.
const ahead = 4

// Start begins the answer to a request and returns its writer. An error means that the reader is gone.
func Start(w http.ResponseWriter) (*Writer, error) {
	w.Header().Set("Content-Type", Media)
	w.Header().Set("Cache-Control", "no-store")
	s := &Writer{w: w, control: http.NewResponseController(w)}
	return s, errors.Join(s.write([]byte("retry: 2000\n\n"), 1), s.flush())
}

// write writes the text of n events.
func (s *Writer) write(text []byte, n int) error {
	if s.unsent == 0 {
		if err := s.control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	if s.unsent += n; s.unsent >= batch {
		return s.flush()
	}
	return nil
}

func (s *Writer) flush() error {
	if s.unsent == 0 {
		return nil
	}
	s.unsent = 0
	return s.control.Flush()
}

// Encode returns an event of a type with data as JSON. An id of "" leaves the reader's position as it is.
func Encode(id, event string, data any) ([]byte, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	var text []byte
	if id != "" {
		text = append(append(append(text, "id: "...), id...), '\n')
	}
	text = append(append(append(text, "event: "...), event...), "\ndata: "...)
	return append(append(text, raw...), "\n\n"...), nil
}

// Send writes the event that Encode returns. The event leaves with the end of the answer at the latest; Pump sees to it that it leaves at once.
func (s *Writer) Send(id, event string, data any) error {
	text, err := Encode(id, event, data)
	if err != nil {
		return err
	}
	return s.write(text, 1)
}

// SendEncoded is Send for events that are encoded. They are written together, because each write to the connection costs more than
// copying them.
func (s *Writer) SendEncoded(events [][]byte) error {
	s.joined = s.joined[:0]
	n := 0
	for i, e := range events {
		s.joined, n = append(s.joined, e...), n+1
		if len(s.joined) < maxJoined && i < len(events)-1 {
			continue
		}
		if err := s.write(s.joined, n); err != nil {
			return err
		}
		s.joined, n = s.joined[:0], 0
	}
	return nil
}

// Pump sends the values that produce yields, with heartbeats in between, until one of them or the reader ends. A slow reader
// holds produce up.
func Pump[T any](ctx context.Context, s *Writer, produce func(context.Context, func(T) error) error, send func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	items, ended := make(chan T, ahead), make(chan error, 1)
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
		if len(items) == 0 { // nothing is ready that could leave with it
			if err := s.flush(); err != nil {
				return end(err)
			}
		}
		select {
		case v := <-items:
			if err := send(v); err != nil {
				return end(err)
			}
		case <-beat.C:
			if err := s.write([]byte(": alive\n\n"), 1); err != nil {
				return end(err)
			}
		case err := <-ended:
			cancel()
			for len(items) > 0 {
				if failed := send(<-items); failed != nil {
					return failed
				}
			}
			return errors.Join(err, s.flush())
		}
	}
}
