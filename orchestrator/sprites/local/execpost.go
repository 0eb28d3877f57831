package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// An exec over POST answers in frames without lengths: clients tell them apart by the pieces in which they arrive. So
// each frame leaves in one write, small enough to arrive in one read, and is followed by a pause in which it is read. The
// HTTP server writes 4 KiB at a time; where no input is expected we write to the connection ourselves, and more at once.
const (
	postFrame      = 60000 // bytes of output in a frame
	postSmallFrame = 4000  // through the HTTP server
	postPause      = 20 * time.Millisecond
)

// execPost runs a command without TTY for clients that have no WebSocket.
func (h *Host) execPost(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	for _, name := range []string{"tty", "id", "detachable", "cc"} {
		if q.Get(name) != "" && q.Get(name) != "false" {
			return badRequest(name + " is not supported on POST /exec")
		}
	}
	in, err := parseExec(q)
	if err != nil {
		return err
	}
	c := newClient(true)
	s, err := h.start(r.Context(), r.PathValue("name"), in, c)
	failed, notStarted := startFailure(err)
	if err != nil && !notStarted {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Connection", "close") // nothing is read of it after the answer
	rc := http.NewResponseController(w)
	if !in.stdin && r.ProtoAtLeast(1, 1) {
		if conn, _, err := rc.Hijack(); err == nil {
			h.postOwn(conn, w.Header(), s, failed, c)
			return nil
		}
	}
	w.WriteHeader(http.StatusOK)
	_ = rc.EnableFullDuplex() // output and input at the same time, or both sides could wait for each other
	_ = rc.Flush()            // the head must not take room in the first frame's piece
	out := postWriter{most: postSmallFrame, send: func(frame []byte) error {
		if _, err := w.Write(frame); err != nil {
			return err
		}
		return rc.Flush()
	}}
	if notStarted {
		out.failure(failed)
		return nil
	}
	defer s.detach(c)
	gone := context.AfterFunc(r.Context(), c.leave)
	defer gone()
	var input sync.WaitGroup
	if in.stdin {
		input.Go(func() { s.copyBody(c, r.Body) })
	}
	complete := s.post(out, c)
	c.leave()
	if in.stdin {
		_ = rc.SetReadDeadline(time.Now()) // ends the reading of a body that nobody wants any more
		input.Wait()
	}
	if !complete {
		panic(http.ErrAbortHandler) // whoever reads this must not take it for the end of the output
	}
	return nil
}

// postOwn answers on a connection that was taken over from the HTTP server, and ends it. failed is why the command could
// not be started, or nil.
func (h *Host) postOwn(conn net.Conn, header http.Header, s *session, failed *sandbox.StartError, c *client) {
	stop := context.AfterFunc(h.ctx, func() { conn.Close() })
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() {
		defer c.leave()
		_, _ = io.Copy(io.Discard, conn) // until the client leaves, or we do
	})
	defer watch.Wait()
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	out := postWriter{most: postFrame, send: func(frame []byte) error {
		chunk := append(fmt.Appendf(nil, "%x\r\n", len(frame)), frame...)
		_, err := conn.Write(append(chunk, "\r\n"...))
		return err
	}}
	header.Set("Transfer-Encoding", "chunked")
	head := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(head) // to memory
	head.WriteString("\r\n")
	// A client that is gone is found so by the first frame.
	_, _ = conn.Write(head.Bytes())
	time.Sleep(postPause)
	complete := true
	if failed != nil {
		out.failure(failed)
	} else {
		complete = s.post(out, c)
		s.detach(c)
	}
	if complete { // an answer without its end tells the client that something is missing
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
}

// post sends output and the exit; false when there was no exit.
func (s *session) post(w postWriter, c *client) bool {
	var held *frame // taken while joining, of the other stream
	for {
		f := held
		if held = nil; f == nil {
			select {
			case next, more := <-c.frames:
				if !more {
					return s.lost == nil && w.frame(sprites.StreamExit, []byte{exitByte(s.code)}) == nil
				}
				f = &next
			case <-c.here.Done():
				return false
			}
		}
		f.data, held = c.join(f.stream, slices.Clip(f.data), w.most)
		for piece := range slices.Chunk(f.data, w.most) {
			if w.frame(f.stream, piece) != nil {
				return false
			}
			time.Sleep(postPause)
		}
	}
}

// join adds what waits of the same stream to data, up to a full frame or so: many small frames would take as many
// pauses. It returns the frame of the other stream that it came across.
func (c *client) join(stream byte, data []byte, most int) ([]byte, *frame) {
	for len(data) < most {
		select {
		case next, more := <-c.frames:
			if !more {
				return data, nil // whoever reads next finds the end, too
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

// copyBody passes the request's body on as stdin. A body that breaks off is no end of input: the process is left
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
type postWriter struct {
	most int                      // bytes of output in a frame
	send func(frame []byte) error // in one write
}

func (p postWriter) frame(stream byte, data []byte) error {
	return p.send(append([]byte{stream}, data...))
}

// failure tells the short life of a command that could not be started; a client that is gone does not hear of it.
func (p postWriter) failure(failed *sandbox.StartError) {
	if p.frame(sprites.StreamStderr, []byte(failed.Text+"\n")) == nil {
		time.Sleep(postPause)
		_ = p.frame(sprites.StreamExit, []byte{exitByte(failed.Code)})
	}
}
