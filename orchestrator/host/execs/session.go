package execs

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	scrollback    = 256 << 10 // recent output kept for those who attach
	recentFrames  = 4 << 10   // pieces that it may be in
	clientBacklog = 64        // frames that wait for a client
)

// frame is a piece of output.
type frame struct {
	stream byte // sprites.StreamStdout or StreamStderr
	data   []byte
}

// client is one reader of a session's output. The owner, who started the command, slows it down when it does not read;
// others are cut off instead.
type client struct {
	owner   bool
	backlog []frame         // output from before it came
	frames  chan frame      // closed after the last frame
	here    context.Context // ends when the client is gone
	leave   func()          // ends it
	release func()          // lets the sprite rest; set when the client joins a session
}

func newClient(owner bool) *client {
	c := &client{owner: owner, frames: make(chan frame, clientBacklog)}
	c.here, c.leave = context.WithCancel(context.Background()) // outlives the request until detach
	return c
}

// session is one command in a box. run owns its goroutines, and the sprite owns run and waits for it in stop.
type session struct {
	id, dir    string
	name       string // of the command, without its folder
	command    string // the program with its path, and the arguments
	tty        bool
	rows, cols int
	created    time.Time
	grace      time.Duration // how long it runs on without clients; 0 = for ever
	proc       *sandbox.Proc
	outputs    map[byte]*os.File // by stream; our ends of the pipes, or the terminal
	input      *os.File          // our end of stdin, or the terminal; nil without stdin
	ports      *fleet.PortWatch  // of the sprite

	stdin    *stdin
	aborted  chan struct{} // closed when the output is no longer needed
	abort    func()
	finished chan struct{} // closed when the last goroutine has ended

	mu      boltfile.Lock // guards the fields below
	recent  []frame       // at most scrollback bytes in recentFrames pieces
	size    int           // bytes in recent
	total   int64
	last    time.Time
	clients map[*client]bool
	timer   *time.Timer // runs while the session has no client
	until   time.Time   // when it kills
	over    chan struct{}
	code    int
	lost    error // why the code is missing
}

func newSession() *session {
	s := &session{
		stdin:   newStdin(),
		aborted: make(chan struct{}), finished: make(chan struct{}),
		clients: map[*client]bool{}, over: make(chan struct{}), outputs: map[byte]*os.File{},
	}
	s.abort = sync.OnceFunc(func() { close(s.aborted) })
	return s
}

// run follows the process to its end. All output reaches the clients before they hear of the exit.
func (s *session) run() {
	var reading, goroutines sync.WaitGroup
	for stream, f := range s.outputs {
		reading.Add(1)
		goroutines.Go(func() { s.pumpOutput(stream, f, reading.Done) })
	}
	goroutines.Go(s.feedStdin)
	code, err := s.proc.Wait()
	// All that the process wrote is in its pipes by now. The pumps take that without waiting for more: children in the
	// background may keep the pipes open for ever.
	for _, f := range s.outputs {
		_ = f.SetReadDeadline(time.Now())
	}
	if s.input != nil {
		_ = s.input.SetWriteDeadline(time.Now())
	}
	reading.Wait()
	s.finishSession(code, err)
	goroutines.Wait()
	for _, f := range s.outputs {
		f.Close()
	}
	if s.tty {
		s.proc.PTY.Close() // resize leaves it alone once the session is over
	}
}

// resizeTerminal tells the terminal its new size.
func (s *session) resizeTerminal(rows, cols uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tty && !s.Ended() {
		// A failure means that the process has just ended.
		_ = s.proc.Resize(rows, cols)
		s.rows, s.cols = int(rows), int(cols)
	}
}

func (s *session) finishSession(code int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.lost = code, err
	if s.timer != nil {
		s.timer.Stop()
	}
	close(s.over)
	for c := range s.clients {
		close(c.frames)
	}
	s.clients = nil
}

func (s *session) Ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pumpOutput hands output to the clients until the process has ended, then calls done and lets children in the background
// write into the void rather than die of a closed pipe.
func (s *session) pumpOutput(stream byte, f *os.File, done func()) {
	buf := make([]byte, program.ReadChunk)
	unheard := program.NewPace(program.UnheardRate)
	for {
		n, err := f.Read(buf)
		if n > 0 && !s.publishFrame(frame{stream, slices.Clone(buf[:n])}) {
			unheard.Take(n, s.aborted)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			program.ReadRest(f, buf, func(data []byte) { s.publishFrame(frame{stream, slices.Clone(data)}) })
			break
		}
		if err != nil {
			break
		}
	}
	done()
	if s.tty || f.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for n, err := f.Read(buf); err == nil; n, err = f.Read(buf) {
		unheard.Take(n, s.aborted)
	}
}

// publishFrame keeps f for later clients and hands it to the present ones, if there are any.
func (s *session) publishFrame(f frame) (heard bool) {
	s.mu.Lock()
	s.keepFrame(f)
	s.total += int64(len(f.data))
	s.last = time.Now()
	present := slices.Collect(maps.Keys(s.clients))
	s.mu.Unlock()

	for _, c := range present {
		if !c.owner {
			select {
			case c.frames <- f:
			case <-c.here.Done():
			default:
				c.leave()
			}
			continue
		}
		select {
		case c.frames <- f:
		case <-c.here.Done():
		case <-s.aborted:
		}
	}
	return len(present) > 0
}

// keepFrame adds f to the recent output and drops the oldest output beyond the limit. A piece that follows one of the same stream joins
// it, or a program that writes byte by byte would cost many times its output. mu is held.
func (s *session) keepFrame(f frame) {
	last := len(s.recent) - 1
	if last >= 0 && s.recent[last].stream == f.stream && len(s.recent[last].data)+len(f.data) <= program.ReadChunk {
		// Readers of the piece see only its old length.
		s.recent[last].data = append(s.recent[last].data, f.data...)
	} else {
		s.recent = append(s.recent, f)
	}
	s.size += len(f.data)
	for s.size > scrollback || len(s.recent) > recentFrames {
		oldest := s.recent[0].data
		if excess := s.size - scrollback; excess > 0 && len(oldest) > excess && len(s.recent) <= recentFrames {
			s.recent[0].data = oldest[excess:]
			s.size -= excess
			return
		}
		s.recent[0].data = nil
		s.recent = s.recent[1:]
		s.size -= len(oldest)
	}
}

// attachClient adds a client; false when the session has ended.
func (s *session) attachClient(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		return false
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	c.backlog = append([]frame(nil), s.recent...)
	s.clients[c] = true
	return true
}

// detachClient removes a client. Without any, the command is killed when its grace is over.
func (s *session) detachClient(c *client) {
	if c.release != nil {
		defer c.release()
	}
	c.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil || !s.clients[c] {
		return
	}
	delete(s.clients, c)
	if len(s.clients) == 0 && s.grace > 0 {
		s.until = time.Now().Add(s.grace)
		// A failed kill means that the process has ended.
		s.timer = time.AfterFunc(s.grace, func() { _ = s.proc.Signal("KILL") })
	}
}

// LastUse returns when the command last wrote output, and until when it may run without a client.
func (s *session) LastUse() (last, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		until = s.until
	}
	return s.last, until
}

// write queues input, nil for its end. It waits for room, and gives up when c leaves.
func (s *session) write(c *client, data []byte) { s.stdin.addPiece(c.here, data) }

// feedStdin passes queued input on to the process.
func (s *session) feedStdin() {
	defer s.stdin.close()
	if s.input == nil {
		return
	}
	if !s.tty { // a terminal is closed with the output
		defer s.input.Close()
	}
	for {
		select {
		case <-s.over:
			return
		case <-s.stdin.more:
		}
		for data, ok := s.stdin.takePiece(); ok; data, ok = s.stdin.takePiece() {
			if data == nil && !s.tty {
				return
			}
			// The process has closed its input, which is not an error.
			if _, err := s.input.Write(data); err != nil {
				return
			}
		}
	}
}

// Abandon ends a session whose box is gone and waits for its goroutines.
func (s *session) Abandon() {
	s.abort()
	<-s.over
	for _, f := range s.outputs {
		f.Close()
	}
	<-s.finished
}

// describeSession describes the session in listings.
func (s *session) describeSession() sprites.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	in := sprites.Session{
		ID: s.id, Created: s.created, Command: s.command, Workdir: s.dir, TTY: s.tty,
		IsActive: len(s.clients) > 0, LastActivity: s.last.UTC(),
	}
	if age := now.Sub(s.created).Seconds(); age > 0 {
		in.BytesPerSecond = float64(s.total) / age
	}
	return in
}
