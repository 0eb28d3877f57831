package local

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// An exec over POST answers in frames without lengths: clients tell them apart by the pieces in which they arrive. So
// each frame is small enough to leave in one piece (the HTTP server writes 4 KiB at a time), and followed by a pause.
// That bounds the speed at some 400 KB/s, whoever is at the other end; a socket has no such bound.
const (
	postFrame = 4000
	postPause = 10 * time.Millisecond
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
	if in.stdin {
		w.Header().Set("Connection", "close") // reading is cut short below
	}
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // output and input at the same time, or both sides could wait for each other
	_ = rc.Flush()            // the head must not take room in the first frame's piece
	if notStarted {
		out := postWriter{w, rc}
		_ = out.frame(sprites.StreamStderr, []byte(failed.Text+"\n"))
		time.Sleep(postPause)
		_ = out.frame(sprites.StreamExit, []byte{exitByte(failed.Code)})
		return nil
	}
	defer s.detach(c)
	var input sync.WaitGroup
	if in.stdin {
		input.Go(func() { s.copyBody(c, r.Body) })
	}
	complete := s.post(postWriter{w, rc}, r, c)
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

// post sends output and the exit; false when there was no exit.
func (s *session) post(w postWriter, r *http.Request, c *client) bool {
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
			case <-r.Context().Done():
				return false
			}
		}
		f.data, held = c.join(f.stream, slices.Clip(f.data))
		for piece := range slices.Chunk(f.data, postFrame) {
			if w.frame(f.stream, piece) != nil {
				return false
			}
			time.Sleep(postPause)
		}
	}
}

// join adds what waits of the same stream to data, up to a full frame or so: many small frames would take as many
// pauses. It returns the frame of the other stream that it came across.
func (c *client) join(stream byte, data []byte) ([]byte, *frame) {
	for len(data) < postFrame {
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

type postWriter struct {
	w  io.Writer
	rc *http.ResponseController
}

func (p postWriter) frame(stream byte, data []byte) error {
	if _, err := p.w.Write(append([]byte{stream}, data...)); err != nil {
		return err
	}
	return p.rc.Flush()
}
