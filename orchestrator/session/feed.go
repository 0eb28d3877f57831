package session

import (
	"io"
	"sync"
)

// feed is the stdin of a process, to which several goroutines write lines. Writing never waits; the queue is bounded by the
// inputs of the calls in progress, which are in memory anyway.
type feed struct {
	more chan struct{} // holds a token when there may be something to read

	mu    sync.Mutex // guards the fields below
	lines [][]byte
	over  bool
}

func newFeed() *feed { return &feed{more: make(chan struct{}, 1)} }

// putLine appends a line with its newline. After end it drops the line.
func (f *feed) putLine(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.lines = append(f.lines, line)
		f.wake()
	}
}

// end ends the feed after the lines that were put before.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.wake()
}

func (f *feed) wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Read is for one reader.
func (f *feed) Read(p []byte) (int, error) {
	for {
		f.mu.Lock()
		if len(f.lines) > 0 {
			n := copy(p, f.lines[0])
			if f.lines[0] = f.lines[0][n:]; len(f.lines[0]) == 0 {
				f.lines = f.lines[1:]
			}
			f.mu.Unlock()
			return n, nil
		}
		over := f.over
		f.mu.Unlock()
		if over {
			return 0, io.EOF
		}
		<-f.more
	}
}
