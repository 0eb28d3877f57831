package protocol

import (
	"fmt"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// A jsonReader checks all JSON that is read: in one pass over a text it checks that the text is exactly one value,
// removes insignificant white space in place and, for readers of envelopes, splits the value into members. A reader of
// untrusted events needs properties that encoding/json lacks: exact member names, unchanged number literals and unknown
// members, detection of duplicate keys, bounded depth, and all of that without copying the text.
type jsonReader struct {
	b    []byte // b[:done] is the compact value so far, b[next:] is unread
	next int
	done int

	// The members of the text, if it is an object, and those of its last member payload, if that is one. They are
	// collected only if the caller has allocated the slices.
	root, payload []member
}

// read checks b, compacts it in place, and returns the compact value, which is a part of b. An error names the offset in
// the original text; b is then undefined.
func (j *jsonReader) read(b []byte) ([]byte, error) {
	j.b, j.next, j.done = b, 0, 0
	j.root, j.payload = j.root[:0], j.payload[:0]
	var err error
	if j.skipSpace(); j.root != nil && j.peekByte() == '{' {
		err = j.readObject(0, &j.root)
	} else {
		err = j.readValue(0)
	}
	if err != nil {
		return nil, err
	}
	if j.skipSpace(); j.next < len(j.b) {
		return nil, j.fail("the value ends here, but more text follows")
	}
	return j.b[:j.done:j.done], nil
}

// compactJSON returns a copy of the one JSON value in text, without insignificant white space.
func compactJSON(text []byte) ([]byte, error) {
	var j jsonReader
	return j.read(append([]byte(nil), text...))
}

func (j *jsonReader) fail(what string) error { return fmt.Errorf("byte %d: %s", j.next, what) }

// peekByte returns the next byte, 0 at the end. A NUL byte is not valid outside of strings, so 0 is unambiguous.
func (j *jsonReader) peekByte() byte {
	if j.next < len(j.b) {
		return j.b[j.next]
	}
	return 0
}

// keepBytes moves the next n bytes to the compact value.
func (j *jsonReader) keepBytes(n int) {
	if j.done != j.next {
		copy(j.b[j.done:], j.b[j.next:j.next+n])
	}
	j.next += n
	j.done += n
}

func (j *jsonReader) keepByte() {
	j.b[j.done] = j.b[j.next]
	j.next++
	j.done++
}

func (j *jsonReader) skipSpace() {
	for j.next < len(j.b) && isSpace(j.b[j.next]) {
		j.next++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (j *jsonReader) readValue(depth int) error {
	j.skipSpace()
	switch c := j.peekByte(); {
	case c == '"':
		return j.readString()
	case c == '{':
		return j.readObject(depth, nil)
	case c == '[':
		return j.readArray(depth)
	case c == '-' || isDigit(c):
		return j.readNumber()
	case c == 't':
		return j.readLiteral("true")
	case c == 'f':
		return j.readLiteral("false")
	case c == 'n':
		return j.readLiteral("null")
	}
	return j.fail("expected a value")
}

// readObject reads an object and adds its members to into, unless that is nil.
func (j *jsonReader) readObject(depth int, into *[]member) error {
	if empty, err := j.readOpening(depth, '}'); empty || err != nil {
		return err
	}
	for {
		if j.skipSpace(); j.peekByte() != '"' {
			return j.fail("expected the name of a member")
		}
		start := j.done
		if err := j.readString(); err != nil {
			return err
		}
		colon := j.done
		if j.skipSpace(); j.peekByte() != ':' {
			return j.fail("expected ':'")
		}
		j.keepByte()
		if into == nil {
			if err := j.readValue(depth + 1); err != nil {
				return err
			}
		} else {
			key := j.b[start:colon:colon]
			name := memberName(key)
			if err := j.memberValue(name, depth+1); err != nil {
				return err
			}
			*into = append(*into, member{name, key, j.b[colon+1 : j.done : j.done]})
		}
		if more, err := j.readSeparator('}'); !more {
			return err
		}
	}
}

// memberValue reads the value of a member whose object is collected, and collects that of the root's payload too.
func (j *jsonReader) memberValue(name string, depth int) error {
	if depth == 1 && name == "payload" {
		j.payload = j.payload[:0]
		if j.skipSpace(); j.peekByte() == '{' {
			return j.readObject(depth, &j.payload)
		}
	}
	return j.readValue(depth)
}

func (j *jsonReader) readArray(depth int) error {
	if empty, err := j.readOpening(depth, ']'); empty || err != nil {
		return err
	}
	for {
		if err := j.readValue(depth + 1); err != nil {
			return err
		}
		if more, err := j.readSeparator(']'); !more {
			return err
		}
	}
}

// readOpening reads the opening bracket of an object or array, and the closing one if it is empty.
func (j *jsonReader) readOpening(depth int, end byte) (empty bool, err error) {
	if depth >= MaxDepth {
		return false, j.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	j.keepByte()
	if j.skipSpace(); j.peekByte() != end {
		return false, nil
	}
	j.keepByte()
	return true, nil
}

// readSeparator reads the comma or closing bracket after a member or element, and reports whether another one follows.
func (j *jsonReader) readSeparator(end byte) (bool, error) {
	j.skipSpace()
	switch j.peekByte() {
	case ',':
		j.keepByte()
		return true, nil
	case end:
		j.keepByte()
		return false, nil
	}
	return false, j.fail("expected ',' or '" + string(end) + "'")
}

func (j *jsonReader) readString() error {
	b := j.b
	for i := j.next + 1; ; {
		i += quote.PlainLen(b[i:])
		if i == len(b) {
			j.next = i
			return j.fail("a string does not end")
		}
		switch b[i] {
		case '"':
			j.keepBytes(i + 1 - j.next)
			return nil
		case '\\':
			n := quote.EscapeLen(b[i:])
			if n == 0 {
				j.next = i
				return j.fail("an unknown escape in a string")
			}
			i += n
		default:
			j.next = i
			return j.fail("a control character in a string")
		}
	}
}

func (j *jsonReader) readNumber() error {
	start := j.next
	if err := j.skipNumber(); err != nil {
		return err
	}
	n := j.next - start
	j.next = start
	j.keepBytes(n)
	return nil
}

func (j *jsonReader) skipNumber() error {
	if j.peekByte() == '-' {
		j.next++
	}
	if j.peekByte() == '0' {
		j.next++
	} else if !j.skipDigits() {
		return j.fail("expected a digit")
	}
	if j.peekByte() == '.' {
		if j.next++; !j.skipDigits() {
			return j.fail("expected a digit")
		}
	}
	if c := j.peekByte(); c == 'e' || c == 'E' {
		j.next++
		if c := j.peekByte(); c == '+' || c == '-' {
			j.next++
		}
		if !j.skipDigits() {
			return j.fail("expected a digit")
		}
	}
	return nil
}

func (j *jsonReader) skipDigits() bool {
	start := j.next
	for isDigit(j.peekByte()) {
		j.next++
	}
	return j.next > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (j *jsonReader) readLiteral(word string) error {
	if end := j.next + len(word); end <= len(j.b) && string(j.b[j.next:end]) == word {
		j.keepBytes(len(word))
		return nil
	}
	return j.fail("expected a value")
}
