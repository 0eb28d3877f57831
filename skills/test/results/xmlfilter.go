package results

import (
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/text"
)

// xmlFilter converts a document to UTF-8 and replaces characters that XML forbids, at which the decoder would stop.
type xmlFilter struct {
	r    io.Reader
	out  []byte // filtered, not yet read
	in   []byte // a sequence cut by the end of a read
	err  error
	buf  [4096]byte
	made []byte

	started, wide, big bool // wide: the document is UTF-16, as its first bytes tell
}

func (f *xmlFilter) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		n, err := f.r.Read(f.buf[:])
		f.err = err
		f.in = append(f.in, f.buf[:n]...)
		f.filterBuffer()
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// filterBuffer moves complete characters from in to out.
func (f *xmlFilter) filterBuffer() {
	f.made = f.made[:0]
	if !f.started {
		if len(f.in) < 2 && f.err == nil {
			return
		}
		f.started = true
		if len(f.in) >= 2 && (f.in[0] == 0xff && f.in[1] == 0xfe || f.in[0] == 0xfe && f.in[1] == 0xff) {
			f.wide, f.big = true, f.in[0] == 0xfe
			f.in = f.in[2:]
		}
	}
	if f.wide {
		f.filterWide()
	} else {
		f.filterUTF8()
	}
	f.out = f.made
}

func (f *xmlFilter) filterUTF8() {
	in := f.in
	for len(in) > 0 {
		r, size := utf8.DecodeRune(in)
		if r == utf8.RuneError && size == 1 && f.err == nil && !utf8.FullRune(in) {
			break
		}
		f.putRune(r)
		in = in[size:]
	}
	f.in = append(f.in[:0], in...)
}

func (f *xmlFilter) filterWide() {
	in := f.in
	unit := func(i int) rune {
		if f.big {
			return rune(in[i])<<8 | rune(in[i+1])
		}
		return rune(in[i+1])<<8 | rune(in[i])
	}
	for len(in) >= 2 {
		r := unit(0)
		if utf16.IsSurrogate(r) {
			if len(in) < 4 && f.err == nil {
				break
			}
			if len(in) >= 4 {
				if both := utf16.DecodeRune(r, unit(2)); both != utf8.RuneError {
					r, in = both, in[2:]
				}
			}
		}
		f.putRune(r)
		in = in[2:]
	}
	f.in = append(f.in[:0], in...)
}

// putRune writes a character, or a replacement for one that XML forbids.
func (f *xmlFilter) putRune(r rune) {
	switch {
	case r == 0x1b:
		r = text.EscapeSymbol
	case r == 0xfeff:
		return
	case r < 0x20 && r != '\t' && r != '\n' && r != '\r', r == 0xfffe, r == 0xffff:
		r = utf8.RuneError
	}
	f.made = utf8.AppendRune(f.made, r)
}
