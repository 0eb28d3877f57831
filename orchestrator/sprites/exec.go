package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	dialTimeout  = 30 * time.Second
	pingInterval = 15 * time.Second // as other clients of the API do
	pingTimeout  = 45 * time.Second
	stdinChunk   = 32 << 10
	// exitGrace is how long the second form of the exit is awaited after the first one arrived.
	exitGrace = 2 * time.Second
)

// Exec runs a command in the sprite and returns its exit code; 128+n after signal n, 127 or 126 when it could not be
// started. All output has been written when Exec returns. Without an exit from the server the error is a *LostError;
// when ctx ends, too: the command is then not signalled, only disconnected.
func (c *Client) Exec(ctx context.Context, name string, e Exec) (int, error) {
	if len(e.Cmd) == 0 {
		return 0, fmt.Errorf("exec in %s: no command given", name)
	}
	query := url.Values{"cmd": e.Cmd, "path": {e.Cmd[0]}, "env": e.Env}
	query.Set("stdin", strconv.FormatBool(e.Stdin != nil || e.TTY))
	if e.Dir != "" {
		query.Set("dir", e.Dir)
	}
	if e.TTY {
		query.Set("tty", "true")
		if e.Rows > 0 && e.Cols > 0 {
			query.Set("rows", strconv.Itoa(e.Rows))
			query.Set("cols", strconv.Itoa(e.Cols))
		}
	}
	if e.MaxRunAfterDisconnect > 0 {
		query.Set("max_run_after_disconnect", e.MaxRunAfterDisconnect.String())
	} else if e.MaxRunAfterDisconnect < 0 {
		query.Set("max_run_after_disconnect", "0")
	}
	code, err := c.stream(ctx, spritePath(name, "exec")+"?"+query.Encode(), e, e.TTY)
	return code, describe(err, "exec %s in %s", e.Cmd[0], name)
}

// Attach joins a running session: its recent output, then what follows. Cmd, Env and Dir of e are not used, TTY is taken
// from the session. A session that is gone is [ErrNotFound].
func (c *Client) Attach(ctx context.Context, name, session string, e Exec) (int, error) {
	code, err := c.stream(ctx, spritePath(name, "exec", session), e, e.TTY)
	return code, describe(err, "attach to session %s in %s", session, name)
}

// Sessions lists the commands that run in the sprite.
func (c *Client) Sessions(ctx context.Context, name string) ([]Session, error) {
	var out struct {
		Sessions []Session `json:"sessions"`
	}
	err := c.call(ctx, http.MethodGet, spritePath(name, "exec"), nil, nil, &out)
	return out.Sessions, describe(err, "list sessions of %s", name)
}

// Kill signals a session's process group ("TERM", "KILL" …) and waits for its end; a session that ignores the signal is
// killed after ten seconds. A session that has ended already is no error.
func (c *Client) Kill(ctx context.Context, name, session, signal string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	query := url.Values{"signal": {signal}, "timeout": {"10s"}}
	res, err := c.do(ctx, http.MethodPost, spritePath(name, "exec", session, "kill"), query, nil)
	var api *APIError
	if errors.As(err, &api) && api.Status == http.StatusGone {
		return nil
	}
	if err != nil {
		return describe(err, "kill session %s in %s", session, name)
	}
	defer res.Body.Close()
	_, err = readProgress(res.Body)
	return describe(err, "kill session %s in %s", session, name)
}

// stream runs one exec socket to its end.
func (c *Client) stream(ctx context.Context, target string, e Exec, tty bool) (int, error) {
	conn, err := c.dial(ctx, target)
	if err != nil {
		return 0, err
	}
	s := &execStream{conn: conn, e: e, tty: tty, informed: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { s.keepalive(inner) })
	helpers.Go(func() { s.forward(inner) })
	if e.Stdin != nil || !tty {
		// Not awaited: a Read of Stdin cannot be interrupted. It ends with its next Read.
		go s.sendStdin(inner)
	}
	code, err := s.receive(ctx)
	cancel()
	conn.CloseNow()
	helpers.Wait()
	return code, err
}

func (c *Client) dial(ctx context.Context, target string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	header := http.Header{}
	c.authorize(header)
	conn, res, err := websocket.Dial(ctx, c.base+target, &websocket.DialOptions{HTTPClient: c.hc, HTTPHeader: header})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != 0 {
			return nil, readAPIError(res)
		}
		return nil, fmt.Errorf("open exec socket: %w", err)
	}
	conn.SetReadLimit(-1)
	return conn, nil
}

// execStream is the client's half of one exec socket. receive, sendStdin, forward and keepalive run side by side.
type execStream struct {
	conn     *websocket.Conn
	e        Exec
	tty      bool          // written by receive before informed is closed
	informed chan struct{} // closed when the session's own word on tty is known
	session  string
}

// receive writes output as it comes and returns the exit code. Servers send the exit twice, as text and (without TTY) as
// a binary frame; output is complete only when both have been seen or the socket is closed.
func (s *execStream) receive(ctx context.Context) (int, error) {
	informed := sync.OnceFunc(func() { close(s.informed) })
	defer informed()
	exit := -1
	for {
		typ, data, err := s.conn.Read(ctx)
		if err != nil {
			if exit >= 0 {
				return exit, nil
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return 0, &LostError{Session: s.session, Err: err}
		}
		if typ == websocket.MessageText {
			var m Control
			if json.Unmarshal(data, &m) != nil {
				continue
			}
			switch {
			case m.Type == "session_info":
				s.tty, s.session = m.TTY, m.SessionID
				informed()
				if s.e.OnSession != nil {
					s.e.OnSession(m.SessionID)
				}
			case m.Type == "exit" && m.ExitCode != nil:
				exit = *m.ExitCode
				if s.tty {
					return exit, nil
				}
				// Only the binary exit or the close can follow; a server that sends neither must not hold us up.
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, exitGrace)
				defer cancel()
			}
			continue
		}
		informed() // a server that sends no session_info means what was asked for
		done, code, err := s.output(data)
		if err != nil {
			return 0, err
		}
		if done {
			if exit < 0 {
				exit = code
			}
			return exit, nil
		}
	}
}

// output handles one binary message; done means that it was the exit.
func (s *execStream) output(data []byte) (done bool, code int, err error) {
	w := s.e.Stdout
	if !s.tty {
		if len(data) == 0 {
			return false, 0, nil
		}
		stream := data[0]
		data = data[1:]
		switch stream {
		case StreamStdout:
		case StreamStderr:
			w = s.e.Stderr
		case StreamExit:
			if len(data) == 0 {
				return false, 0, nil
			}
			return true, int(data[0]), nil
		default:
			return false, 0, nil
		}
	}
	if w == nil {
		return false, 0, nil
	}
	if _, err := w.Write(data); err != nil {
		return false, 0, fmt.Errorf("write output: %w", err)
	}
	return false, 0, nil
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
				if s.conn.Write(ctx, websocket.MessageBinary, msg) != nil {
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

// forward sends resizes and signals.
func (s *execStream) forward(ctx context.Context) {
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

// keepalive notices a peer that is gone without a word.
func (s *execStream) keepalive(ctx context.Context) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ping, cancel := context.WithTimeout(ctx, pingTimeout)
			err := s.conn.Ping(ping)
			cancel()
			if err != nil {
				s.conn.CloseNow()
				return
			}
		}
	}
}
