package image

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how much memory unpacking zstd may take.
const maxWindow = 128 << 20

// compressions tells compressed files by how they begin. Those without open are not read here.
var compressions = []struct {
	name  string
	magic []byte
	open  func(io.Reader) (io.ReadCloser, error)
}{
	{"gzip", []byte{0x1f, 0x8b}, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
	{"xz", []byte{0xfd, '7', 'z', 'X', 'Z'}, nil},
	{"bzip2", []byte("BZh"), nil},
	{"zip", []byte("PK\x03\x04"), nil},
}

// openDecompressed returns the tar in r, whether it is compressed or not. Closing it leaves r open.
func openDecompressed(r io.Reader) (io.ReadCloser, error) {
	src := &source{r: r}
	buffered := bufio.NewReaderSize(src, 64<<10)
	head, err := buffered.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	for _, c := range compressions {
		if !bytes.HasPrefix(head, c.magic) {
			continue
		}
		if c.open == nil {
			return nil, &Refusal{"it is compressed by " + c.name + ", which is not read here", "decompress it, or compress it by gzip or zstd"}
		}
		d, err := c.open(buffered)
		if err != nil {
			return nil, src.blameSource(c.name, err)
		}
		return &decompressed{d, src, c.name}, nil
	}
	return io.NopCloser(buffered), nil
}

// source remembers its own error, so that a disk's fault is not taken for the archive's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *source) blameSource(compression string, err error) error {
	if s.err != nil {
		return s.err
	}
	return refuseImage("its %s is damaged: %v", compression, err)
}

type decompressed struct {
	io.ReadCloser
	src  *source
	name string
}

func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = d.src.blameSource(d.name, err)
	}
	return n, err
}
