package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"unicode/utf8"
)

// Scanner splits a raw stdout stream into events, output and warnings, one record per line in the stream's order, with
// bounded memory: a line longer than MaxLine gives its beginning as output and, when it has ended, a warning. A line
// with the prefix that does not contain an event is output as well, unchanged, followed by a warning. A line ends with LF
// or CRLF; the last one may end with the stream. A record is delivered as soon as its line is complete.
//
// The record of a line depends on that line alone, not on other lines or on how reads split the stream.
type Scanner struct {
	r      io.Reader
	err    error // of r; delivered when the buffer is empty
	prefix string
	line   int   // number of the line that starts at buf[start], less one
	offset int64 // of buf[start] in the stream

	buf        []byte
	start, end int // of the bytes that were read and not yet delivered
	searched   int // bytes after start that contain no LF

	decoder decoder
	warning *Record // to deliver next
	cut     *cutter // set while inside a line that is being cut
}

const (
	firstBuffer = 64 << 10
	// A line within the limit may be followed by CRLF.
	window    = MaxLine + 2
	maxBuffer = window + firstBuffer
	// maxEmptyReads is how often r may return nothing without an error.
	maxEmptyReads = 100
)

// NewScanner returns a Scanner that reads a stdout stream from r.
func NewScanner(r io.Reader) *Scanner { return &Scanner{r: r, prefix: Prefix} }

// NewOutboxScanner returns a Scanner that reads an outbox from r: every line is an event without prefix. Empty lines are skipped.
func NewOutboxScanner(r io.Reader) *Scanner { return &Scanner{r: r} }

// Next returns the next record, or io.EOF after the last one. A read error is returned after all records before it.
func (s *Scanner) Next() (Record, error) {
	var rec Record
	err := s.Read(&rec)
	if rec.Bytes != nil {
		rec.Text, rec.Bytes = text(rec.Bytes), nil
	}
	return rec, err
}

func text(b []byte) string {
	b, _ = toUTF8(b)
	return string(b)
}

// Read is Next without the copy of output lines: Text stays empty, and Bytes is the line until the next call.
func (s *Scanner) Read(rec *Record) error {
	if s.warning != nil {
		*rec, s.warning = *s.warning, nil
		return nil
	}
	if s.cut != nil {
		return s.finishCut(rec)
	}
	for {
		line, next, found := s.findLine()
		if !found {
			if s.err == nil {
				s.fillBuffer()
				continue
			}
			if s.start == s.end {
				*rec = Record{}
				return s.err
			}
			line, next = s.buf[s.start:s.end], s.end // the stream is this line's end
		}
		s.line++
		if len(line) > MaxLine {
			s.beginCut(rec)
			return nil
		}
		s.consumeTo(next)
		if s.prefix == "" && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		s.deliverLine(rec, line)
		return nil
	}
}

// findLine returns the first line in the buffer without its end, and the position of the next one. A line that is too long
// is found as soon as that is known.
func (s *Scanner) findLine() (line []byte, next int, found bool) {
	seen := s.buf[s.start:s.end]
	i := bytes.IndexByte(seen[s.searched:], '\n')
	if i < 0 {
		s.searched = len(seen)
		return seen, s.end, len(seen) >= window
	}
	i += s.searched
	next = s.start + i + 1
	if i > 0 && seen[i-1] == '\r' {
		i--
	}
	return seen[:i:i], next, true
}

// consumeTo moves the start of the next line to position next of the buffer.
func (s *Scanner) consumeTo(next int) {
	s.offset += int64(next - s.start)
	s.start, s.searched = next, 0
}

func (s *Scanner) deliverLine(rec *Record, line []byte) {
	if len(line) < len(s.prefix) || string(line[:len(s.prefix)]) != s.prefix {
		s.deliverOutput(rec, line)
		return
	}
	*rec = Record{Kind: KindEvent, Line: s.line}
	problems, why := s.decoder.decode(line[len(s.prefix):], &rec.Event)
	if why == "" {
		rec.Problems = problems
		return
	}
	s.deliverOutput(rec, line)
	s.warning = &Record{Kind: KindWarning, Code: WarnNoEvent, Line: s.line, Detail: why}
}

// deliverOutput sets as few fields as possible: most lines are output, and so was the line before.
func (s *Scanner) deliverOutput(rec *Record, line []byte) {
	if rec.Kind != KindOutput {
		*rec = Record{Kind: KindOutput}
	}
	rec.Text, rec.Bytes, rec.Line = "", line, s.line
}

// fillBuffer makes room in the buffer and reads once from r.
func (s *Scanner) fillBuffer() {
	if s.start == s.end {
		s.start, s.end = 0, 0
	}
	if s.end == len(s.buf) {
		s.makeRoom()
	}
	for range maxEmptyReads {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

func (s *Scanner) makeRoom() {
	to := s.buf
	if kept := s.end - s.start; len(s.buf) < maxBuffer && kept >= len(s.buf)/2 {
		to = make([]byte, min(max(2*len(s.buf), firstBuffer), maxBuffer))
	}
	s.end = copy(to, s.buf[s.start:s.end])
	s.start, s.buf = 0, to
}

// cutter hashes and measures a line that is too long to keep.
type cutter struct {
	line   int
	offset int64
	size   int64
	sum    hash.Hash
	heldCR bool // the last byte seen was a CR, which may belong to the line's end
}

func (c *cutter) write(b []byte) {
	if len(b) == 0 {
		return
	}
	if c.heldCR {
		c.sum.Write([]byte{'\r'})
		c.size++
	}
	if c.heldCR = b[len(b)-1] == '\r'; c.heldCR {
		b = b[:len(b)-1]
	}
	c.sum.Write(b)
	c.size += int64(len(b))
}

// beginCut delivers the beginning of a line that is too long, up to a whole rune.
func (s *Scanner) beginCut(rec *Record) {
	n := MaxLine
	for n > MaxLine-utf8.UTFMax && !utf8.RuneStart(s.buf[s.start+n]) {
		n--
	}
	line := s.buf[s.start : s.start+n]
	s.cut = &cutter{line: s.line, offset: s.offset, sum: sha256.New()}
	s.cut.write(line)
	s.consumeTo(s.start + n)
	*rec = Record{Kind: KindOutput, Bytes: line, Line: s.line}
}

// finishCut discards the rest of the line and delivers the warning.
func (s *Scanner) finishCut(rec *Record) error {
	for {
		rest := s.buf[s.start:s.end]
		i := bytes.IndexByte(rest, '\n')
		if i >= 0 {
			s.cut.write(rest[:i])
			s.consumeTo(s.start + i + 1)
			break
		}
		s.cut.write(rest)
		s.consumeTo(s.end)
		if s.err != nil {
			if s.cut.heldCR { // without LF it is not a line end
				s.cut.heldCR = false
				s.cut.sum.Write([]byte{'\r'})
				s.cut.size++
			}
			break
		}
		s.fillBuffer()
	}
	cut := Cut{s.cut.offset, s.cut.size, hex.EncodeToString(s.cut.sum.Sum(nil))}
	*rec = Record{Kind: KindWarning, Code: WarnLineCut, Line: s.cut.line, Detail: cut.String(), Cut: &cut}
	s.cut = nil
	return nil
}
