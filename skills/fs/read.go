package fs

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultReadBytes = 1 << 20
	maxReadBytes     = 8 << 20
)

type readInput struct {
	Path      string `json:"path"`
	Encoding  string `json:"encoding"`
	Offset    int64  `json:"offset"`
	Length    *int64 `json:"length"`
	StartLine *int64 `json:"start_line"`
	EndLine   *int64 `json:"end_line"`
	MaxBytes  int64  `json:"max_bytes"`
	Truncate  bool   `json:"truncate"`
}

type readData struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"` // of the whole file, not of the range
	Offset   int64  `json:"offset"`
	Length   int64  `json:"length"`
	Mode     string `json:"mode"`

	Truncated  bool  `json:"truncated"`
	TotalLines int64 `json:"total_lines,omitempty"` // of the whole file, when asked by line
}

// readFile does the work of fs.read. It returns the requested content or refuses. Content is cut only on request, because
// a caller may write back the content that it read.
func readFile(ctx context.Context, c *skill.Call, in readInput) (*readData, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	rel, err := c.Root.Rel(in.Path)
	if err != nil {
		return nil, err
	}
	f, err := openFile(c, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", rel, err)
	}
	p := picker{limit: in.MaxBytes, buffer: bufferFor(info.Size())}
	if in.byLine() {
		err = p.pickLines(ctx, f, in.StartLine, in.EndLine)
	} else {
		err = p.pickBytes(ctx, f, in.Offset, in.Length)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", rel, err)
	}
	if p.over && !in.Truncate {
		return nil, fault.Limit("too_large", "%s: the requested range exceeds %d bytes", rel, in.MaxBytes).
			WithHint(`read it in parts with offset and length, raise max_bytes, or set "truncate":true`).
			WithDetails(map[string]any{"size": p.size, "max_bytes": in.MaxBytes})
	}
	if p.over && in.Encoding == encodingUTF8 {
		p.picked = wholeRunes(p.picked)
	}
	data := readData{
		Path: rel, Encoding: in.Encoding, Size: p.size, SHA256: hex.EncodeToString(p.sum.Sum(nil)),
		Offset: p.start, Length: int64(len(p.picked)), Mode: formatMode(info.Mode()), Content: string(p.picked),
		Truncated: p.over, TotalLines: p.totalLines,
	}
	switch {
	case in.Encoding == encodingBase64:
		data.Content = base64.StdEncoding.EncodeToString(p.picked)
	case !utf8.Valid(p.picked):
		return nil, fault.Failed("not_utf8", "%s is not UTF-8 in the requested range", rel).
			WithHint(`ask for "encoding":"base64"`)
	}
	return &data, nil
}

func (in *readInput) byLine() bool { return in.StartLine != nil || in.EndLine != nil }

func (in *readInput) validate() error {
	in.Encoding = cmp.Or(in.Encoding, encodingUTF8)
	in.MaxBytes = cmp.Or(in.MaxBytes, defaultReadBytes)
	switch {
	case in.Encoding != encodingUTF8 && in.Encoding != encodingBase64:
		return badEncoding(in.Encoding)
	case in.MaxBytes < 0 || in.MaxBytes > maxReadBytes:
		return skill.BadInput("/max_bytes", "is not between 1 and %d", maxReadBytes)
	case in.Offset < 0:
		return skill.BadInput("/offset", "is negative")
	case in.Length != nil && *in.Length < 0:
		return skill.BadInput("/length", "is negative")
	case in.byLine() && (in.Offset != 0 || in.Length != nil):
		return skill.BadInput("/start_line", "cannot be used together with offset or length")
	case in.StartLine != nil && *in.StartLine < 1:
		return skill.BadInput("/start_line", "is less than 1")
	case in.EndLine != nil && *in.EndLine < 1:
		return skill.BadInput("/end_line", "is less than 1")
	case in.StartLine != nil && in.EndLine != nil && *in.EndLine < *in.StartLine:
		return skill.BadInput("/end_line", "is before start_line")
	}
	return nil
}

// bufferFor is a buffer that takes a small file and its end at once; a fixed one of the largest size would cost a small
// file more than reading it.
func bufferFor(size int64) int { return int(min(max(size, 0)+512, 64<<10)) }

// picker reads a file once, hashes all of it and keeps the part that was asked for, in bounded memory.
type picker struct {
	limit  int64
	buffer int // bytes
	sum    hash.Hash
	size   int64
	start  int64 // offset of picked
	picked []byte
	over   bool // the part is larger than limit, and cut there

	totalLines int64 // counted by lines only
}

func (p *picker) keepChunk(chunk []byte) {
	room := p.limit - int64(len(p.picked))
	if p.over = p.over || int64(len(chunk)) > room; p.over {
		chunk = chunk[:min(int64(len(chunk)), room)]
	}
	p.picked = append(p.picked, chunk...)
}

// wholeRunes cuts a character of which the end is missing.
func wholeRunes(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

func (p *picker) pickBytes(ctx context.Context, f io.Reader, offset int64, length *int64) error {
	end := int64(math.MaxInt64)
	if length != nil && *length < end-offset {
		end = offset + *length
	}
	buf := make([]byte, p.buffer)
	return p.readChunks(ctx, func() ([]byte, error) {
		n, err := f.Read(buf)
		return buf[:n], err
	}, func(at int64, chunk []byte) {
		from := min(max(offset-at, 0), int64(len(chunk)))
		to := min(max(end-at, from), int64(len(chunk)))
		p.keepChunk(chunk[from:to])
	}, func() { p.start = min(offset, p.size) })
}

func (p *picker) pickLines(ctx context.Context, f io.Reader, first, last *int64) error {
	line, began, open := int64(1), false, false
	r := bufio.NewReaderSize(f, p.buffer)
	return p.readChunks(ctx, func() ([]byte, error) {
		chunk, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			err = nil
		}
		return chunk, err
	}, func(at int64, chunk []byte) {
		if (first == nil || line >= *first) && (last == nil || line <= *last) {
			if !began {
				began, p.start = true, at
			}
			p.keepChunk(chunk)
		}
		if len(chunk) > 0 {
			if open = chunk[len(chunk)-1] != '\n'; !open {
				line++
			}
		}
	}, func() {
		if p.totalLines = line - 1; open {
			p.totalLines = line
		}
		if !began {
			p.start = p.size
		}
	})
}

// readChunks drives one pass: next yields pieces, use sees each with its offset, done runs at the end of the file.
func (p *picker) readChunks(ctx context.Context, next func() ([]byte, error), use func(int64, []byte), done func()) error {
	p.sum = sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk, err := next()
		p.sum.Write(chunk)
		use(p.size, chunk)
		p.size += int64(len(chunk))
		if err == io.EOF {
			done()
			return nil
		}
		if err != nil {
			return err
		}
	}
}
