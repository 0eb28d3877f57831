package execs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// An exec over POST answers in frames without lengths: clients tell them apart by the pieces in which they arrive. So
// each frame leaves in one write, small enough to arrive in one read of any client, some of which take 32 KiB at a time,
// and is followed by a pause in which it is read. The HTTP server would write 4 KiB at a time, and many small frames take
// as many pauses: we take the connection over and write to it ourselves.
const (
	postFrame = 32<<10 - 1 // bytes of output in a frame, without its number
	postPause = 20 * time.Millisecond
	// exitPause comes before the exit that follows output: a busy client that reads both at once takes the exit for output,
	// and never hears of it.
	exitPause = 150 * time.Millisecond
)

// Post runs a command without TTY for clients that have no WebSocket.
func (ea *API) Post(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	for _, name := range []string{"tty", "id", "detachable", "cc"} {
		if q.Get(name) != "" && q.Get(name) != "false" {
			return wire.BadRequest(strings.ToUpper(name) + " not supported on POST /exec; use a WebSocket")
		}
	}
	in, err := parseExec(q)
	if err != nil {
		return err
	}
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return wire.Refuse(http.StatusHTTPVersionNotSupported, "http_version", "exec over POST needs HTTP/1.1, because its frames are told apart by chunks")
	}
	c := newClient(true)
	s, err := ea.startCommand(r.Context(), r.PathValue("name"), in, c)
	failed, notStarted := startFailure(err)
	if err != nil && !notStarted {
		return err
	}
	if !notStarted {
		defer s.detachClient(c)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ea.Context, func() { conn.Close() })()
	out := postWriter{conn}
	out.writeHead(w.Header(), strings.EqualFold(r.Header.Get("Expect"), "100-continue"))
	if notStarted {
		out.writeFailure(failed)
		return nil
	}
	var input sync.WaitGroup
	input.Go(func() {
		defer c.leave()
		if in.stdin {
			s.copyBody(c, requestBody(r, buffered.Reader))
		}
		_, _ = io.Copy(io.Discard, buffered) // until the client leaves, or we do
	})
	defer func() {
		c.leave()
		conn.Close()
		input.Wait()
	}()
	if s.postOutput(out, c) { // an answer without its end tells the client that something is missing
		out.endBody()
	}
	return nil
}

// requestBody returns the body of r on a connection that was taken over.
func requestBody(r *http.Request, from *bufio.Reader) io.Reader {
	if r.ContentLength >= 0 {
		return &exactly{from, r.ContentLength}
	}
	return httputil.NewChunkedReader(from)
}

// exactly reads n bytes; an earlier end is an error.
type exactly struct {
	r io.Reader
	n int64
}

// Read implements [io.Reader].
func (e *exactly) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.n)])
	if e.n -= int64(n); err == io.EOF && e.n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// postOutput sends output and the exit; false when there was no exit.
func (s *session) postOutput(w postWriter, c *client) bool {
	var held *frame // taken while joining, of the other stream
	said := false
	for {
		f := held
		if held = nil; f == nil {
			select {
			case next, more := <-c.frames:
				if !more {
					if said {
						time.Sleep(exitPause - postPause)
					}
					return s.lost == nil && w.writeFrame(sprites.StreamExit, []byte{exitByte(s.code)}) == nil
				}
				f, said = &next, true
			case <-c.here.Done():
				return false
			}
		}
		f.data, held = c.joinFrames(f.stream, slices.Clip(f.data))
		for piece := range slices.Chunk(f.data, postFrame) {
			if w.writeFrame(f.stream, piece) != nil {
				return false
			}
			time.Sleep(postPause)
		}
	}
}

// joinFrames appends the waiting frames of the same stream to data, up to a full frame or so: many small frames would take as many
// pauses. It returns the frame of the other stream that it came across.
func (c *client) joinFrames(stream byte, data []byte) ([]byte, *frame) {
	for len(data) < postFrame {
		select {
		case next, more := <-c.frames:
			if !more {
				return data, nil // the next read finds the end, too
			}
			if next.stream != stream {
				return data, &next
			}
			data = append(data, next.data...)
		default:
			return data, nil
		}
	}
	return data, nil
}

// copyBody passes the request's body on as stdin. A body that breaks off does not end the input: the process is left
// waiting until its grace is over.
func (s *session) copyBody(c *client, body io.Reader) {
	buf := make([]byte, stdinPiece)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			s.write(c, slices.Clone(buf[:n]))
		}
		if err == io.EOF {
			s.write(c, nil)
		}
		if err != nil {
			return
		}
	}
}

// postWriter sends frames that arrive in one piece.
type postWriter struct{ conn net.Conn }

// writeHead begins the answer. A client that is gone is found so by the first frame.
func (p postWriter) writeHead(header http.Header, expected bool) {
	var head bytes.Buffer
	if expected {
		head.WriteString("HTTP/1.1 100 Continue\r\n\r\n")
	}
	head.WriteString("HTTP/1.1 200 OK\r\n")
	for name, value := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Transfer-Encoding": "chunked", "Connection": "close",
	} {
		header.Set(name, value)
	}
	_ = header.Write(&head) // to memory
	head.WriteString("\r\n")
	_, _ = p.conn.Write(head.Bytes())
	time.Sleep(postPause) // it must not take room in the first frame's piece
}

func (p postWriter) writeFrame(stream byte, data []byte) error {
	chunk := append(fmt.Appendf(nil, "%x\r\n", 1+len(data)), stream)
	_, err := p.conn.Write(append(append(chunk, data...), "\r\n"...))
	return err
}

// writeFailure tells the short life of a command that could not be started; a client that is gone does not hear of it.
func (p postWriter) writeFailure(failed *spec.StartError) {
	if p.writeFrame(sprites.StreamStderr, []byte(failed.Text+"\n")) == nil {
		time.Sleep(exitPause)
		if p.writeFrame(sprites.StreamExit, []byte{exitByte(failed.Code)}) == nil {
			p.endBody()
		}
	}
}

// endBody ends the answer.
func (p postWriter) endBody() { _, _ = io.WriteString(p.conn, "0\r\n\r\n") }
