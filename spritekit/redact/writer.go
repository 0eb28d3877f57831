package redact

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// maxHeld bounds the text in bytes that a Writer holds back beyond what a secret needs: white space between two characters of
// a secret can be of any length.
const maxHeld = 64 << 10

// Writer is a writer that lets no secret through, also one that comes in several pieces: a line with text with which one may
// begin is held back until the next write, or Flush. It is safe for concurrent use.
type Writer struct {
	secrets func() *Secrets
	to      io.Writer

	mu      sync.Mutex // guards the fields below, and orders the writes
	held    []byte
	covered int // bytes of held that belong to a secret whose mark is written
}

// Writer returns a writer to w.
func (s *Secrets) Writer(w io.Writer) *Writer {
	return NewWriter(w, func() *Secrets { return s })
}

// NewWriter returns a writer to w that asks for the secrets at each write.
func NewWriter(w io.Writer, secrets func() *Secrets) *Writer {
	return &Writer{secrets: secrets, to: w}
}

// Write writes p without secrets, but for an end with which one may begin.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.secrets()
	if !s.Any() && len(w.held) == 0 {
		return w.to.Write(p)
	}
	return len(p), w.write(s, append(w.held, p...), false)
}

// write writes whole, the held text with the new one behind it. It holds back an end of it, unless whole is the last.
func (w *Writer) write(s *Secrets, whole []byte, last bool) error {
	v := newView(whole)
	found := s.findSpans(whole, v)
	if w.covered > 0 {
		found = mergeSpans(slices.Insert(found, 0, Span{0, v.ceilToken(w.covered)}))
	}
	ready := len(whole)
	if !last {
		ready = wholeLines(whole, v, s.measureReady(whole, v))
	}
	out, from, covered := make([]byte, 0, ready), 0, 0
	for i, f := range found {
		if f.Begin >= ready {
			break
		}
		out = append(out, whole[from:f.Begin]...)
		if i > 0 || w.covered == 0 {
			out = append(out, Mark...)
		}
		from, covered = min(f.End, ready), max(f.End-ready, 0)
	}
	if ready == 0 {
		covered = w.covered
	}
	out = append(out, whole[from:ready]...)
	w.held, w.covered = bytes.Clone(whole[ready:]), covered
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}

// wholeLines moves ready, from which on text of p is held back, to the beginning of its line: another writer to the same log
// may write before the rest comes.
func wholeLines(p []byte, v view, ready int) int {
	if ready == len(p) {
		return ready
	}
	line := v.floorToken(bytes.LastIndexByte(p[:ready], '\n') + 1)
	if len(p)-line > maxHeld {
		return ready
	}
	return line
}

// measureReady returns the size of the beginning of p that no later text can make part of a secret.
func (s *Secrets) measureReady(p []byte, v view) int {
	if !s.Any() {
		return len(p)
	}
	ready := min(len(p), v.open)
	ready = min(ready, v.floorToken(len(p)-measureBegun(p, s.raw)))
	settled, _ := slices.BinarySearch(v.at, v.open) // bytes of the plain view before a token that is cut off
	if n := measureBegun(v.text[:settled], s.plain); n > 0 {
		ready = min(ready, v.at[settled-n])
	}
	if len(p)-ready > maxHeld+2*s.longest {
		return len(p)
	}
	return ready
}

// measureBegun returns the length of the longest end of p with which one of forms may begin.
func measureBegun(p []byte, forms [][]byte) int {
	longest := 0
	for _, form := range forms {
		for n := min(len(p), len(form)-1); n > longest; n-- {
			if p[len(p)-n] == form[0] && bytes.HasPrefix(form, p[len(p)-n:]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// Flush writes the text that was held back: it did not become a secret.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	return w.write(w.secrets(), w.held, true)
}
