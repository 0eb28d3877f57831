package execs

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	// quiet is after how long without output a client is sent something all the same: some clients take 45 seconds of
	// silence for death, and do not count pings.
	quiet      = 20 * time.Second
	stdinPiece = 64 << 10
	// signalPause is how long a socket stays open after a command that a signal ended: a client that has just sent the signal
	// is still busy with that, and some take a close that comes before they have read the exit for a lost connection.
	signalPause = 100 * time.Millisecond
)

// execSocket starts a command, then opens the socket: a command that cannot be started is refused in the handshake, and output is
// kept from the first byte on.
func (ea *API) execSocket(w http.ResponseWriter, r *http.Request) error {
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	in, err := parseExec(r.URL.Query())
	if err != nil {
		return err
	}
	c := newClient(true)
	s, err := ea.startCommand(r.Context(), r.PathValue("name"), in, c)
	if failed, ok := startFailure(err); ok {
		return ea.serveFailure(w, r, in, failed)
	}
	if err != nil {
		return err
	}
	ea.serveSocket(w, r, s, c)
	return nil
}

// Attach joins a session that runs.
func (ea *API) Attach(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") == "" {
		return wire.AsText(ea.showSession)(w, r)
	}
	return ea.attachTo(w, r, r.PathValue("session"))
}

// showSession answers who asks for a session without joining it.
func (ea *API) showSession(_ http.ResponseWriter, r *http.Request) error {
	_, release, err := ea.findSession(r.PathValue("name"), r.PathValue("session"))
	if err != nil {
		return err
	}
	release()
	return wire.Refuse(http.StatusUpgradeRequired, "upgrade_required", "joining a session needs a WebSocket")
}

func (ea *API) attachTo(w http.ResponseWriter, r *http.Request, id string) error {
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	s, release, err := ea.findSession(r.PathValue("name"), id)
	if err != nil {
		return err
	}
	c := newClient(false)
	c.release = release
	if !s.attachClient(c) {
		release()
		return noSession(id)
	}
	ea.serveSocket(w, r, s, c)
	return nil
}

// serveSocket connects a client with a session until one of them ends.
func (ea *API) serveSocket(w http.ResponseWriter, r *http.Request, s *session, c *client) {
	defer s.detachClient(c)
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	// Not the request's context: it ends with the handler, and the library says not to use it.
	ctx, cancel := context.WithCancel(ea.Context)
	defer cancel()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer c.leave()
		s.readMessages(ctx, conn, c)
	})
	stop := context.AfterFunc(ctx, c.leave)
	if s.sendOutput(ctx, conn, c) {
		if s.code > 128 { // died of a signal
			select {
			case <-time.After(signalPause):
			case <-c.here.Done(): // the client has closed it already
			}
		}
		conn.Close(websocket.StatusNormalClosure, "")
	}
	stop()
	cancel()
	conn.CloseNow()
	reader.Wait()
}

// readMessages reads the client's messages. It reads at all times, because only reading answers pings.
func (s *session) readMessages(ctx context.Context, conn *websocket.Conn, c *client) {
	for {
		typ, message, err := wire.NextMessage(ctx, conn)
		if err != nil {
			return
		}
		if typ == websocket.MessageText {
			err = s.handleControl(message)
		} else {
			err = s.takeInput(c, message)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, message) // the unread rest
		}
		if err != nil {
			return
		}
	}
}

// takeInput passes a binary message on in pieces as they come: it may be larger than memory.
func (s *session) takeInput(c *client, message io.Reader) error {
	if !s.tty {
		var stream [1]byte
		if _, err := io.ReadFull(message, stream[:]); err != nil {
			return ignoreEOF(err) // an empty message
		}
		switch stream[0] {
		case sprites.StreamStdin:
		case sprites.StreamEOF:
			s.write(c, nil)
			return nil
		default:
			return nil
		}
	}
	return s.takeRaw(c, message)
}

// takeRaw passes all of message on as input.
func (s *session) takeRaw(c *client, message io.Reader) error {
	buf := make([]byte, stdinPiece)
	for {
		n, err := message.Read(buf)
		if n > 0 {
			s.write(c, slices.Clone(buf[:n]))
		}
		if err != nil {
			return ignoreEOF(err)
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// handleControl executes a text message. Unknown messages, and those that come too late because the process has just ended, it
// ignores.
func (s *session) handleControl(message io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(message, wire.MaxControl))
	if err != nil {
		return err
	}
	var m sprites.Control
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	switch {
	case m.Type == "resize" && fitsUint16(m.Rows) && fitsUint16(m.Cols):
		s.resizeTerminal(uint16(m.Rows), uint16(m.Cols))
	case m.Type == "signal":
		_ = s.proc.Signal(program.SignalName(m.Signal))
	}
	return nil
}

func fitsUint16(n int) bool { return n > 0 && n < 1<<16 }

// sendOutput sends output and the exit; true when all of it was sent. The order matters: clients return at the first word of
// an exit and drop what comes later. Of stdout and stderr each arrives in the order in which it was written, and all of it
// before the exit; between the two the order is undefined, as they are two pipes. A terminal, and 2>&1, have one.
func (s *session) sendOutput(ctx context.Context, conn *websocket.Conn, c *client) bool {
	s.mu.Lock()
	info := sessionInfo{
		Type: "session_info", SessionID: s.id, Command: s.name, Created: s.created.Unix(),
		Rows: s.rows, Cols: s.cols, IsOwner: c.owner, TTY: s.tty,
	}
	s.mu.Unlock()
	if !wire.SendControl(ctx, conn, info) {
		return false
	}
	for _, f := range c.backlog {
		if !s.sendFrame(ctx, conn, f) {
			return false
		}
	}
	c.backlog = nil
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	ports := newPortNotices(s.ports, s.proc.PID)
	defer ports.endWatch()
	for {
		select {
		case f, more := <-c.frames:
			if !more {
				return s.sendExit(ctx, conn)
			}
			if !s.sendFrame(ctx, conn, f) {
				return false
			}
		case <-c.here.Done():
			return false
		case <-ports.begin.C:
			ports.joinWatch()
			continue
		case now := <-ports.portLists():
			for _, e := range ports.diffPorts(now.Ports) {
				if !wire.SendControl(ctx, conn, e) {
					return false
				}
			}
			continue
		case <-silence.C:
			if !wire.SendControl(ctx, conn, sprites.Control{Type: "debug", Msg: "still running"}) {
				return false
			}
		}
		silence.Reset(quiet)
	}
}

func (s *session) sendFrame(ctx context.Context, conn *websocket.Conn, f frame) bool {
	data := f.data
	if !s.tty {
		data = append([]byte{f.stream}, data...)
	}
	return conn.Write(ctx, websocket.MessageBinary, data) == nil
}

// sendExit reports the exit code in both forms. Without one, because the sandbox died, the socket closes with an error
// instead: a lost command must not look like one that succeeded.
func (s *session) sendExit(ctx context.Context, conn *websocket.Conn) bool {
	if s.lost != nil {
		conn.Close(websocket.StatusInternalError, "the sandbox ended before the command did")
		return false
	}
	return sendExit(ctx, conn, s.code, s.tty)
}

func sendExit(ctx context.Context, conn *websocket.Conn, code int, tty bool) bool {
	if !wire.SendControl(ctx, conn, sprites.Control{Type: "exit", ExitCode: &code}) {
		return false
	}
	return tty || conn.Write(ctx, websocket.MessageBinary, []byte{sprites.StreamExit, exitByte(code)}) == nil
}

func exitByte(code int) byte {
	if code < 0 || code > 255 {
		return 255
	}
	return byte(code)
}

// sessionInfo is the first message of every socket; unlike [sprites.Control] it has all its members always.
type sessionInfo struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id"`
	Command   string `json:"command"`
	Created   int64  `json:"created"`
	Cols      int    `json:"cols"`
	Rows      int    `json:"rows"`
	IsOwner   bool   `json:"is_owner"`
	TTY       bool   `json:"tty"`
}

// serveFailure plays the short life of a command that could not be started.
func (ea *API) serveFailure(w http.ResponseWriter, r *http.Request, in execRequest, failed *spec.StartError) error {
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return nil // Accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(ea.Context, quiet)
	defer cancel()
	if ea.tellFailure(ctx, conn, in, failed) {
		conn.Close(websocket.StatusNormalClosure, "")
	}
	return nil
}

// tellFailure sends a client the messages of a command that writes why it fails, and exits.
func (ea *API) tellFailure(ctx context.Context, conn *websocket.Conn, in execRequest, failed *spec.StartError) bool {
	text := []byte(failed.Text + "\n")
	if !in.tty {
		text = append([]byte{sprites.StreamStderr}, text...)
	}
	info := sessionInfo{
		Type: "session_info", SessionID: ea.nextSession(), Command: path.Base(in.argv[0]), Created: ea.Now().Unix(),
		Rows: in.rows, Cols: in.cols, IsOwner: true, TTY: in.tty,
	}
	return wire.SendControl(ctx, conn, info) && conn.Write(ctx, websocket.MessageBinary, text) == nil && sendExit(ctx, conn, failed.Code, in.tty)
}
