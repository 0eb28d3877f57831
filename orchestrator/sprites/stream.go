package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/sprites/socket"
)

const (
	probeInterval = 15 * time.Second // as other clients of the API do
	stdinChunk    = 32 << 10
	// maxMessage bounds one message of a server; those of all known servers are far smaller.
	maxMessage = 64 << 20
	// exitGrace is how long the second form of the exit is awaited after the first one arrived.
	exitGrace = 2 * time.Second
)

// streamExec runs one exec socket to its end.
func (c *Client) streamExec(ctx context.Context, conn *websocket.Conn, e Exec, tty bool) (int, error) {
	s := &execStream{conn: conn, e: e, tty: tty, pulse: socket.Pulse{Conn: conn, Every: c.o.Probe}, informed: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { s.pulse.Run(inner) })
	helpers.Go(func() { s.forwardControl(inner) })
	if e.Stdin != nil || !tty {
		// Not awaited: a Read of Stdin cannot be interrupted. It ends with its next Read.
		go s.sendStdin(inner)
	}
	code, err := s.receiveOutput(ctx)
	cancel()
	conn.CloseNow()
	helpers.Wait()
	return code, err
}

// execStream is the client's half of one exec socket. receive, sendStdin, forward and its pulse run side by side.
type execStream struct {
	conn     *websocket.Conn
	e        Exec
	pulse    socket.Pulse
	tty      bool          // written by receive before informed is closed
	informed chan struct{} // closed when the session's own word on tty is known
	settled  bool          // informed is closed; of receive alone
	session  string
}

// exits holds the exit codes that a server sent: as text, and without TTY also as a binary frame. Output is complete only when
// both have been seen or the socket is closed.
type exits struct {
	text, frame *int
}

// exitCode is the exit that both forms agree on; false when they do not, or nothing was said.
func (x exits) exitCode() (int, bool) {
	switch {
	case x.text == nil && x.frame == nil:
		return 0, false
	case x.text == nil:
		return *x.frame, true
	case x.frame == nil || *x.frame == *x.text || *x.frame == 255 && (*x.text < 0 || *x.text > 255):
		return *x.text, true
	}
	return 0, false
}

// receiveOutput writes output as it comes and returns the exit code.
func (s *execStream) receiveOutput(ctx context.Context) (int, error) {
	informed := func() {
		if !s.settled {
			s.settled = true
			close(s.informed)
		}
	}
	defer informed()
	var said exits
	for {
		typ, data, err := socket.ReadMessage(ctx, s.conn)
		if err != nil {
			if code, ok := said.exitCode(); ok {
				return code, nil
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return 0, &LostError{Session: s.session, Err: err}
		}
		s.pulse.Heard()
		before := said
		if typ == websocket.MessageText {
			s.handleText(data, &said, informed)
		} else {
			informed() // a server that sends no session_info agrees to the request
			if err := s.handleOutput(data, &said); err != nil {
				return 0, err
			}
		}
		if said.text != nil && (said.frame != nil || s.tty) {
			code, ok := said.exitCode()
			if !ok {
				return 0, &LostError{Session: s.session, Err: fmt.Errorf("the exit was told twice, as %d and as %d", *said.text, *said.frame)}
			}
			return code, nil
		}
		if before == (exits{}) && said != before {
			// Only the other exit or the close can follow; a server that sends neither must not hold us up.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, exitGrace)
			defer cancel()
		}
	}
}

// handleText takes a text message; kinds that it does not know say nothing.
func (s *execStream) handleText(data []byte, said *exits, informed func()) {
	var m Control
	var mistyped *json.UnmarshalTypeError // old servers number their sessions; the rest of the message counts
	if err := json.Unmarshal(data, &m); err != nil && !errors.As(err, &mistyped) {
		return
	}
	switch {
	case m.Type == "session_info" && s.session == "":
		s.session = m.SessionID
		if !s.settled { // output that came first has settled it already
			s.tty = m.TTY
		}
		informed()
		if s.e.OnSession != nil && s.session != "" {
			s.e.OnSession(m.SessionID)
		}
	case m.Type == "exit" && m.ExitCode != nil && said.text == nil:
		said.text = m.ExitCode
	}
}

// handleOutput takes one binary message.
func (s *execStream) handleOutput(data []byte, said *exits) error {
	w := s.e.Stdout
	if !s.tty {
		if len(data) == 0 {
			return nil
		}
		stream := data[0]
		data = data[1:]
		switch stream {
		case StreamStdout:
		case StreamStderr:
			w = s.e.Stderr
		case StreamExit:
			if len(data) > 0 && said.frame == nil {
				code := int(data[0])
				said.frame = &code
			}
			return nil
		default:
			return nil
		}
	}
	if w == nil {
		return nil
	}
	err := s.pulse.During(func() error { // the reader of the output may be slow
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// sendStdin copies Stdin into the socket, then sends its end. Write errors end it silently: receive reports the loss.
func (s *execStream) sendStdin(ctx context.Context) {
	select {
	case <-s.informed:
	case <-ctx.Done():
		return
	}
	if s.e.Stdin != nil {
		buf := make([]byte, 1+stdinChunk)
		buf[0] = StreamStdin
		for {
			n, err := s.e.Stdin.Read(buf[1:])
			if n > 0 {
				msg := buf[:1+n]
				if s.tty {
					msg = buf[1 : 1+n]
				}
				// The process may take its time, too.
				if s.pulse.During(func() error { return s.conn.Write(ctx, websocket.MessageBinary, msg) }) != nil {
					return
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				// Half an input must not look like a whole one: no end is sent, the socket goes.
				s.conn.CloseNow()
				return
			}
		}
	}
	if !s.tty {
		_ = s.conn.Write(ctx, websocket.MessageBinary, []byte{StreamEOF})
	}
}

// forwardControl sends resizes and signals.
func (s *execStream) forwardControl(ctx context.Context) {
	resize, signals := s.e.Resize, s.e.Signals
	for resize != nil || signals != nil {
		var m Control
		select {
		case <-ctx.Done():
			return
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			m = Control{Type: "resize", Rows: size.Rows, Cols: size.Cols}
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			m = Control{Type: "signal", Signal: sig}
		}
		data, err := json.Marshal(m)
		if err != nil || s.conn.Write(ctx, websocket.MessageText, data) != nil {
			return
		}
	}
}
