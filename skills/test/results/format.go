package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Stream reads the output of a runner line by line while it runs. Done is called after the last line.
type Stream interface {
	Line(text string)
	Done()
}

// Format names the form of a report.
type Format string

const (
	FormatJUnit    Format = "junit"
	FormatCTRF     Format = "ctrf"
	FormatJest     Format = "jest" // jest's and vitest's JSON
	FormatMocha    Format = "mocha"
	FormatRSpec    Format = "rspec"
	FormatTRX      Format = "trx"
	FormatTAP      Format = "tap"
	FormatGo       Format = "go" // go test -json
	FormatLibtest  Format = "libtest"
	FormatUnittest Format = "unittest"
)

// Formats lists them all.
func Formats() []Format {
	return []Format{
		FormatJUnit, FormatCTRF, FormatJest, FormatMocha, FormatRSpec, FormatTRX, FormatTAP, FormatGo, FormatLibtest, FormatUnittest,
	}
}

// Stream is a reader of this format for lines that come while the tests run; nil when it is read only as a whole.
func (f Format) Stream(s *Set) Stream {
	switch f {
	case FormatTAP:
		return NewTAP(s, "")
	case FormatGo:
		return NewGoTest(s, "", nil)
	case FormatLibtest:
		return NewLibtest(s)
	case FormatUnittest:
		return NewUnittest(s)
	}
	return nil
}

// ErrTooLarge reports that a report was cut at the limit; the part before it was read.
var ErrTooLarge = errors.New("the report has more than 32 MiB: the rest was not read")

// Parse reads a report into s. base names the report if it does not name its suites. Cases that were read before an
// error stays in s.
func (f Format) Parse(r io.Reader, base string, s *Set) error {
	capped := &cappedReader{r: r, left: maxReport}
	err := f.parseReport(capped, base, s)
	if capped.cut {
		return ErrTooLarge
	}
	return err
}

func (f Format) parseReport(r io.Reader, base string, s *Set) error {
	switch f {
	case FormatJUnit:
		return walkXML(r, &junitWalk{set: s, base: base})
	case FormatTRX:
		return parseTRX(r, s)
	case FormatCTRF:
		return parseCTRF(r, s)
	case FormatJest:
		return parseJest(r, s)
	case FormatMocha:
		return parseMocha(r, s)
	case FormatRSpec:
		return parseRSpec(r, s)
	case FormatTAP:
		return readLines(r, NewTAP(s, base))
	}
	if stream := f.Stream(s); stream != nil {
		return readLines(r, stream)
	}
	return fmt.Errorf("unknown report format %q", f)
}

// cappedReader ends with an error where there is more than allowed.
type cappedReader struct {
	r    io.Reader
	left int
	cut  bool
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		n, err := c.r.Read(p[:min(1, len(p))])
		if c.cut = n > 0; c.cut {
			return 0, ErrTooLarge
		}
		return 0, err
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

const maxLine = 1 << 20

func readLines(r io.Reader, stream Stream) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, prefix, err := in.ReadLine()
		line = append(line, part[:min(len(part), maxLine-len(line))]...)
		if err != nil {
			if len(line) > 0 { // the last line fills the buffer and has no newline
				stream.Line(string(line))
			}
			stream.Done()
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("read the report: %w", err)
		}
		if !prefix {
			stream.Line(string(line))
			line = line[:0]
		}
	}
}

// readObject walks the members of a JSON object; each reads the value of one it knows, and skips others by false.
func readObject(d *json.Decoder, each func(name string) (known bool, err error)) error {
	if err := readDelim(d, '{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("parse the report: %w", err)
		}
		name, _ := t.(string) // the decoder allows nothing else
		known, err := each(name)
		if err == nil && !known {
			err = skipValue(d)
		}
		if err != nil {
			return err
		}
	}
	return readDelim(d, '}')
}

// array walks the elements of a JSON array, one in memory at a time.
func array[T any](d *json.Decoder, each func(T)) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("parse the report: %w", err)
	}
	if t == nil {
		return nil
	}
	if t != json.Delim('[') {
		return errors.New("parse the report: an array is not where it should be")
	}
	for d.More() {
		var v T
		if err := readValue(d, &v); err != nil {
			return err
		}
		each(v)
	}
	return readDelim(d, ']')
}

// readValue decodes one value. A member of another type than expected is left at zero: the rest still tells something.
func readValue(d *json.Decoder, v any) error {
	var mistyped *json.UnmarshalTypeError
	if err := d.Decode(v); err != nil && !errors.As(err, &mistyped) {
		return fmt.Errorf("parse the report: %w", err)
	}
	return nil
}

func readDelim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("parse the report: %w", err)
	}
	if t != want {
		return fmt.Errorf("parse the report: %v where %v should be", t, want)
	}
	return nil
}

// skipValue reads over one value without keeping it.
func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("parse the report: %w", err)
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxNesting {
				return errDeep
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
