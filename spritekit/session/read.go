package session

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxRequest is the longest line that is taken, in bytes: the largest input of a skill and the other members of a call.
const maxRequest = skill.MaxInput + 64<<10

// request is one line of stdin.
type request struct {
	line     int
	size     int
	call     protocol.SessionCall
	cancel   string
	problems []protocol.Problem
}

// readRequests hands on lines until stdin ends or the session is gone.
func readRequests(stdin io.Reader, to chan<- request, gone <-chan struct{}) {
	defer close(to)
	in := bufio.NewReaderSize(stdin, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(in)
		if len(line) == 0 && !tooLong && err != nil {
			return // a read error is handled like the end of the input
		}
		if r, ok := parseRequest(n, line, tooLong); ok {
			select {
			case to <- r:
			case <-gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns the next line without its end. Of one that is too long nothing is kept.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > maxRequest {
			line, tooLong = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), tooLong, err
		}
	}
}

// parseRequest reads a line; false when it is empty.
func parseRequest(n int, line []byte, tooLong bool) (request, bool) {
	r := request{line: n, size: len(line)}
	switch {
	case tooLong:
		r.problems = []protocol.Problem{{Message: "is longer than " + strconv.Itoa(maxRequest) + " bytes"}}
		return r, true
	case len(line) == 0:
		return r, false
	}
	r.call, r.cancel, r.problems = protocol.DecodeSessionRequest(line)
	if len(r.problems) == 0 && r.cancel == "" {
		if err := journal.CheckID(r.call.CallID); err != nil {
			r.call.CallID = ""
			r.problems = []protocol.Problem{{Pointer: "/call_id", Message: err.Error()}}
		}
	}
	return r, true
}
