// Package bytecount counts the bytes of streams, so that a command can show how far its work has come. Start with [Counter]. It
// never changes or fails a stream.
package bytecount

import (
	"io"
	"os"
)

// Counter counts the bytes that are written to it, and tells their number after each write. io.TeeReader connects it to a reader,
// io.MultiWriter to a writer.
type Counter struct {
	N    int64
	Tell func(n int64) // may be nil
}

func (c *Counter) Write(p []byte) (int, error) {
	c.N += int64(len(p))
	if c.Tell != nil {
		c.Tell(c.N)
	}
	return len(p), nil
}

// File returns the content of a regular file. It tells the end of each read, also when parts are read again.
func File(f *os.File, size int64, tell func(n int64)) *io.SectionReader {
	return io.NewSectionReader(position{f, tell}, 0, size)
}

// position tells where the last read ended.
type position struct {
	*os.File
	tell func(n int64)
}

func (p position) ReadAt(b []byte, offset int64) (int, error) {
	n, err := p.File.ReadAt(b, offset)
	p.tell(offset + int64(n))
	return n, err
}
