package checkpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
)

// maxAnswer bounds the response of a host, in bytes.
const maxAnswer = 8 << 20

// readResponse reads an HTTP/1.1 response to a request that said "Connection: close".
func readResponse(br *bufio.Reader, read func(io.Reader) error) error {
	head := textproto.NewReader(br)
	status, err := head.ReadLine()
	if err != nil {
		return fmt.Errorf("read status: %w", wholeResponse(err))
	}
	proto, rest, _ := strings.Cut(status, " ")
	code, reason, _ := strings.Cut(rest, " ")
	if !strings.HasPrefix(proto, "HTTP/1.") {
		return fmt.Errorf("the host does not speak HTTP: %.100q", status)
	}
	header, err := head.ReadMIMEHeader()
	if err != nil {
		return fmt.Errorf("read header: %w", wholeResponse(err))
	}
	var body io.Reader = br
	if strings.EqualFold(header.Get("Transfer-Encoding"), "chunked") {
		body = &chunks{br: br}
	} else if length := header.Get("Content-Length"); length != "" {
		n, err := strconv.ParseInt(length, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("bad Content-Length %.20q", length)
		}
		body = &exactly{r: br, n: n}
	}
	body = io.LimitReader(body, maxAnswer)
	if code != "200" {
		text, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // the status says enough
		return fmt.Errorf("the host answered %s %s: %s", code, reason, bytes.TrimSpace(text))
	}
	return read(body)
}

// wholeResponse turns an end in the middle into an error that callers cannot take for the end.
func wholeResponse(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// exactly reads n bytes; an earlier end is an error.
type exactly struct {
	r io.Reader
	n int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.n)])
	e.n -= int64(n)
	if e.n > 0 {
		err = wholeResponse(err)
	}
	return n, err
}

// chunks reads a chunked body and ends with io.EOF after its last chunk only.
type chunks struct {
	br   *bufio.Reader
	left int64
	end  bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.end {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.nextChunk(); err != nil {
			return 0, err
		}
		if c.end {
			return 0, io.EOF
		}
	}
	n, err := c.br.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == nil && c.left == 0 {
		err = c.readCRLF()
	}
	return n, wholeResponse(err)
}

func (c *chunks) nextChunk() error {
	line, err := c.br.ReadString('\n')
	if err != nil {
		return wholeResponse(err)
	}
	size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
	n, err := strconv.ParseInt(size, 16, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("bad chunk size %.20q", size)
	}
	c.left, c.end = n, n == 0 // trailers are of no interest: the connection closes
	return nil
}

func (c *chunks) readCRLF() error {
	var b [2]byte
	if _, err := io.ReadFull(c.br, b[:]); err != nil {
		return wholeResponse(err)
	}
	if b != [2]byte{'\r', '\n'} {
		return errors.New("chunk without end")
	}
	return nil
}
