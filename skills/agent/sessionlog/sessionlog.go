// Package sessionlog watches the file to which an agent appends its session, and tells when the results of tools are in it. Start
// with Log. It never writes to the file.
package sessionlog

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
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
	result  []byte         // is in the file once for each result of a tool; nil if nothing is awaited
	named   bool           // the id of the call follows it in quotes
	call    *regexp.Regexp // matches once for each call that gets a result; the agent writes it before the tool runs; may be nil

	mu   sync.Mutex // guards the fields below
	name string     // of the file
	read int64      // the lines up to here are counted
	// Results by the ids of their calls; all under "" if the file does not name them.
	seen   map[string]int // in those lines
	former map[string]int // of earlier invocations
	want   map[string]int // that the agent has reported, with the former ones
	open   int            // calls without results in those lines
	left   int            // calls that never get results, such as those of an invocation that was killed
}

// Open notes which file holds the session, and counts the results of earlier invocations.
func (s *Log) Open(root *workspace.Root, pattern string, f *adapter.SessionFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root, s.pattern, s.result, s.named, s.want = root, pattern, []byte(f.Result), f.Named, map[string]int{}
	if f.Call != "" {
		s.call = regexp.MustCompile(f.Call) // adapter.Check has compiled it
	}
	s.readMore()
	s.former, s.left = maps.Clone(s.seen), s.open
}

// ExpectResult notes that the agent is going to write the result of a call.
func (s *Log) ExpectResult(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.result == nil:
	case s.named:
		s.want[id] = s.former[id] + 1
	default:
		s.want[""] = max(s.want[""], s.former[""]) + 1
	}
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
			s.want, s.former, s.left = map[string]int{}, maps.Clone(s.seen), s.open
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
	for id, n := range s.want {
		if s.seen[id] < n {
			return false
		}
	}
	return s.open <= s.left // an agent does not report each call
}

// readMore counts the results in the lines that were appended to the file. s.mu is held.
func (s *Log) readMore() {
	if s.result == nil {
		return
	}
	found, err := filepath.Glob(s.pattern)
	if err != nil || len(found) == 0 {
		return // it is not there yet
	}
	if newest := found[len(found)-1]; newest != s.name { // agents begin the names with the time
		s.name, s.read, s.seen, s.former, s.open, s.left = newest, 0, map[string]int{}, nil, 0, 0
	}
	for {
		data, _, err := s.root.ReadRange(s.name, s.read, maxRead)
		lines := data[:bytes.LastIndexByte(data, '\n')+1]
		if err != nil || len(lines) == 0 {
			return
		}
		s.read += int64(len(lines))
		results := bytes.Split(lines, s.result)[1:]
		if s.call != nil {
			s.open += len(s.call.FindAllIndex(lines, -1)) - len(results)
		}
		for _, result := range results {
			id := ""
			if name, ok := bytes.CutPrefix(result, []byte{'"'}); s.named && ok {
				name, _, _ = bytes.Cut(name, []byte{'"'})
				id = string(name)
			}
			s.seen[id]++
		}
	}
}
