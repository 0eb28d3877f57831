package grep

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"
)

// Match is a line that matches.
type Match struct {
	Line   int      `json:"line"`   // from 1
	Column int      `json:"column"` // of the first match in the line, in bytes from 1
	Offset int64    `json:"offset"` // of the first match in the file, in bytes from 0
	Text   string   `json:"text"`   // the line without its end
	Cut    bool     `json:"cut,omitempty"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Options select the parts of a Result.
type Options struct {
	Binary  bool // search files with a NUL in their beginning, too
	Context int  // lines around a match
	MaxLine int  // cut lines to this many bytes, around the match
	Max     int  // stop after this many lines; 0 is all
	Count   bool // count the lines only
}

// Result holds the matches of one file.
type Result struct {
	Matches []Match // unless only counted
	Count   int     // lines that match
	More    bool    // it was stopped by Max, and there is more
	Binary  bool    // it is binary and was left out
}

const (
	firstBlock = 256 << 10
	// MaxBlock bounds the memory of a Scanner; a longer line is searched in parts of this size.
	MaxBlock = 2 << 20
	// sniff is how much of a file tells whether it is binary; as much as git looks at.
	sniff = 8000
)

// Scanner searches files, one at a time. Its zero value with a Matcher is ready.
type Scanner struct {
	Matcher *Matcher
	Options

	block []byte
	cursor
}

// Scan reads r, which has about size bytes, and returns its matches.
func (s *Scanner) Scan(ctx context.Context, r io.Reader, size int64) (Result, error) {
	if s.block == nil {
		s.block = make([]byte, firstBlock)
	}
	v := view{scanner: s, line: 1}
	var result Result
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if err := v.fillBuffer(r, size); err != nil {
			return result, err
		}
		if first && !s.Binary && bytes.IndexByte(v.data[:min(sniff, len(v.data))], 0) >= 0 {
			return Result{Binary: true}, nil
		}
		v.searchBuffer(&result)
		if v.end || result.More {
			return result, nil
		}
		v.shiftBuffer()
	}
}

// view is the part of a file that is in memory.
type view struct {
	scanner *Scanner
	data    []byte // a part of the scanner's block
	base    int64  // offset of data in the file
	todo    int    // where in data the search goes on: the beginning of a line
	line    int    // number of the line at counted
	counted int
	end     bool // data reaches the end of the file
}

// fillBuffer reads until the block is full or the file at its end.
func (v *view) fillBuffer(r io.Reader, size int64) error {
	s := v.scanner
	n := len(v.data)
	if n == len(s.block) {
		grown := make([]byte, 2*len(s.block)) // shift left no room: a long line, or long ones around it
		copy(grown, v.data)
		s.block = grown
	}
	for n < len(s.block) {
		m, err := r.Read(s.block[n:])
		n += m
		if err == io.EOF || v.base == 0 && int64(n) == size {
			v.end = true
			break
		}
		if err != nil {
			return err
		}
	}
	v.data = s.block[:n]
	return nil
}

// searchBuffer searches the complete lines.
func (v *view) searchBuffer(result *Result) {
	s := v.scanner
	to := len(v.data)
	if !v.end {
		if to = bytes.LastIndexByte(v.data, '\n') + 1; to <= v.todo {
			if len(v.data) < MaxBlock {
				return
			}
			to = len(v.data) // no line is that long
		}
	}
	s.cursor.block = nil // its content has changed
	for v.todo < to {
		start, _ := s.Matcher.Next(v.data[:to], v.todo, &s.cursor)
		if start < 0 {
			break
		}
		begin := bytes.LastIndexByte(v.data[:start], '\n') + 1
		end, next := lineEnd(v.data[:to], start)
		if !s.Count && s.Context > 0 && !v.end && !v.isEnough(next, to) {
			v.todo = begin
			return
		}
		if s.Max > 0 && result.Count == s.Max {
			result.More = true
			return
		}
		result.Count++
		if !s.Count {
			result.Matches = append(result.Matches, v.newMatch(begin, start, end, next))
		}
		v.todo = next
	}
	v.todo = to
}

// isEnough reports whether the lines of the context behind a match are there, or no room is left to read them.
func (v *view) isEnough(next, to int) bool {
	return bytes.Count(v.data[next:to], []byte{'\n'}) >= v.scanner.Context || len(v.data) >= MaxBlock && v.linesBefore(next) == 0
}

// linesBefore is where the context of a match begins, which may begin at todo.
func (v *view) linesBefore(at int) int {
	for range v.scanner.Context + 1 {
		if at == 0 {
			break
		}
		at = bytes.LastIndexByte(v.data[:at-1], '\n') + 1
	}
	return at
}

func (v *view) newMatch(begin, start, end, next int) Match {
	v.countLines(begin)
	m := Match{Line: v.line, Column: start - begin + 1, Offset: v.base + int64(start)}
	m.Text, m.Cut = v.showLine(v.data[begin:max(begin, end)], start-begin)
	for at := begin; at > 0 && len(m.Before) < v.scanner.Context; {
		from := bytes.LastIndexByte(v.data[:at-1], '\n') + 1
		text, _ := v.showLine(bytes.TrimSuffix(v.data[from:at-1], []byte("\r")), 0)
		m.Before = append(m.Before, text)
		at = from
	}
	for i, j := 0, len(m.Before)-1; i < j; i, j = i+1, j-1 {
		m.Before[i], m.Before[j] = m.Before[j], m.Before[i]
	}
	for at := next; at < len(v.data) && len(m.After) < v.scanner.Context; {
		end, next := lineEnd(v.data, at)
		text, _ := v.showLine(v.data[at:end], 0)
		m.After = append(m.After, text)
		at = next
	}
	return m
}

// countLines moves the line number to where at is.
func (v *view) countLines(at int) {
	if at < v.counted {
		v.line -= bytes.Count(v.data[at:v.counted], []byte{'\n'})
	} else {
		v.line += bytes.Count(v.data[v.counted:at], []byte{'\n'})
	}
	v.counted = at
}

// showLine returns a line as text, cut to the part around at.
func (v *view) showLine(line []byte, at int) (text string, cut bool) {
	most := v.scanner.MaxLine
	if most <= 0 || len(line) <= most {
		return strings.ToValidUTF8(string(line), "\uFFFD"), false
	}
	from := max(0, min(at-most/4, len(line)-most))
	to := from + most
	for from > 0 && from < to && !utf8.RuneStart(line[from]) {
		from++
	}
	for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
		to--
	}
	return strings.ToValidUTF8(string(line[from:to]), "\uFFFD"), true
}

// shiftBuffer drops the lines that were searched, except for those that may be context of later matches.
func (v *view) shiftBuffer() {
	keep := v.todo
	if !v.scanner.Count && v.scanner.Context > 0 {
		keep = v.linesBefore(v.todo)
		if v.todo == 0 {
			keep = 0
		}
	}
	if len(v.data) >= MaxBlock && keep == 0 {
		keep = v.todo // the context is too large to be kept
	}
	v.countLines(keep)
	n := copy(v.scanner.block, v.data[keep:])
	v.data = v.scanner.block[:n]
	v.base += int64(keep)
	v.todo -= keep
	v.counted = 0
}
