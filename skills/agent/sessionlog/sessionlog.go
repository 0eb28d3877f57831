// Package sessionlog watches the file to which an agent appends its session, and tells when the results of tools are in it. Start
// with Log. It never writes to the file.
package sessionlog

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	wait = 15 * time.Second // in which an agent writes a result
	poll = 10 * time.Millisecond

	maxRead = 16 << 20 // a line
)

// ErrUnwritten is the error of Await when an agent does not write a result that it reported.
var ErrUnwritten = errors.New("the agent did not write the results of its tools to its session")

// Log is the file to which an agent appends its session; see the session of an adapter. Until it is opened nothing is awaited.
type Log struct {
	root    *workspace.Root
	pattern string
	mark    []byte // is in the file once for each result of a tool

	mu    sync.Mutex // guards the fields below
	name  string     // of the file
	read  int64      // the lines up to here are counted
	count int        // results in there
	want  int        // results that the agent has reported
}

// Open notes which file holds the session, and counts the results of earlier invocations.
func (s *Log) Open(root *workspace.Root, pattern, mark string) {
	s.root, s.pattern, s.mark = root, pattern, []byte(mark)
	s.CatchUp()
}

// ExpectResult notes that the agent is going to write the result of a tool.
func (s *Log) ExpectResult() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want++
}

// CatchUp makes results that the agent wrote without reporting them count as reported.
func (s *Log) CatchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readMore()
	s.want = max(s.want, s.count)
}

// Await waits until the file holds all results that were reported. It returns the cause of ctx if that ends before, and
// ErrUnwritten if the agent does not write them.
func (s *Log) Await(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for end := time.Now().Add(wait); !s.holdsAll(); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if time.Now().After(end) {
			s.mu.Lock()
			s.want = s.count
			s.mu.Unlock()
			return ErrUnwritten
		}
	}
	return context.Cause(ctx)
}

func (s *Log) holdsAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readMore()
	return s.mark == nil || s.count >= s.want
}

// readMore counts the results in the lines that were appended to the file. s.mu is held.
func (s *Log) readMore() {
	if s.mark == nil {
		return
	}
	found, err := filepath.Glob(s.pattern)
	if err != nil || len(found) == 0 {
		return // it is not there yet
	}
	if newest := found[len(found)-1]; newest != s.name { // agents begin the names with the time
		s.name, s.read, s.count = newest, 0, 0
	}
	for {
		data, _, err := s.root.ReadRange(s.name, s.read, maxRead)
		lines := data[:bytes.LastIndexByte(data, '\n')+1]
		if err != nil || len(lines) == 0 {
			return
		}
		s.read += int64(len(lines))
		s.count += bytes.Count(lines, s.mark)
	}
}
