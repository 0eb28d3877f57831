package gitcmd

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Split returns the NUL-terminated records that git prints with -z.
func Split(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// maxRecord bounds one record of git's output, in bytes.
const maxRecord = 1 << 20

// Records passes git's output on record by record, so that it is never held as a whole. After an error of Each, or a
// record that is too long, it discards the rest; Finish returns the error.
type Records struct {
	End     byte
	Each    func(record []byte) error // the bytes are valid until it returns
	partial []byte
	err     error
}

// Write never fails: git must not block.
func (r *Records) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && r.err == nil; {
		i := bytes.IndexByte(rest, r.End)
		if i < 0 {
			if len(r.partial)+len(rest) > maxRecord {
				r.err = fault.Limit("too_much_output", "a line of git's output has more than %d bytes", maxRecord).WithHint("a file of the repository's .git folder is damaged: git fsck")
				break
			}
			r.partial = append(r.partial, rest...)
			break
		}
		record := rest[:i]
		if len(r.partial) > 0 {
			record = append(r.partial, record...)
			r.partial = r.partial[:0]
		}
		r.err = r.Each(record)
		rest = rest[i+1:]
	}
	return len(p), nil
}

// Finish returns git's own failure, or the first error in its output.
func (r *Records) Finish(gitErr error) error {
	switch {
	case gitErr != nil:
		return gitErr
	case r.err == nil && len(r.partial) > 0:
		return fmt.Errorf("read git's output: it ends within a record")
	}
	return r.err
}

// lineWriter keeps the beginning of stderr and passes it on line by line. Lines of progress end with \r.
type lineWriter struct {
	to     *proc.Head
	follow func(string)
	line   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.follow == nil {
		return w.to.Write(p)
	}
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			w.line = append(w.line, rest[:min(len(rest), maxDiag-min(len(w.line), maxDiag))]...)
			break
		}
		w.follow(strings.TrimSpace(string(append(w.line, rest[:i]...))))
		w.line, rest = w.line[:0], rest[i+1:]
	}
	return w.to.Write(p)
}
