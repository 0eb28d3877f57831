package protocol

import "fmt"

// A jsonReader is the gate that all JSON passes: in one pass over a text it checks that the text is exactly one value,
// moves the value together so that no insignificant white space is left, and, for readers of envelopes, splits it.
// encoding/json would do, but not what a reader of untrusted events needs: members matched by their exact name, number
// literals and unknown members untouched, duplicates seen, depth bounded, and all of that as views of one text.
type jsonReader struct {
	b    []byte // b[:done] is moved together, b[next:] is still to read
	next int
	done int

	// Collected for who made room for them: the members of the text, when it is an object, and those of the last of
	// them that is named payload, when that is one.
	root, payload []member
}

// read checks b, rearranges it, and returns the value that it holds, a part of b. The error tells the place in b as it
// was; b is spoilt then.
func (j *jsonReader) read(b []byte) ([]byte, error) {
	j.b, j.next, j.done = b, 0, 0
	j.root, j.payload = j.root[:0], j.payload[:0]
	var err error
	if j.space(); j.root != nil && j.peek() == '{' {
		err = j.object(0, &j.root)
	} else {
		err = j.value(0)
	}
	if err != nil {
		return nil, err
	}
	if j.space(); j.next < len(j.b) {
		return nil, j.fail("the value ends here, but more text follows")
	}
	return j.b[:j.done:j.done], nil
}

// compact returns the one JSON value that text holds, without insignificant white space and in memory of its own.
func compact(text []byte) ([]byte, error) {
	var j jsonReader
	return j.read(append([]byte(nil), text...))
}

func (j *jsonReader) fail(what string) error { return fmt.Errorf("byte %d: %s", j.next, what) }

// peek is the byte at the cursor, 0 at the end. A NUL is legal nowhere outside of strings, so the two need no telling apart.
func (j *jsonReader) peek() byte {
	if j.next < len(j.b) {
		return j.b[j.next]
	}
	return 0
}

// keep takes the next n bytes.
func (j *jsonReader) keep(n int) {
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

func (j *jsonReader) space() {
	for j.next < len(j.b) && isSpace(j.b[j.next]) {
		j.next++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (j *jsonReader) value(depth int) error {
	j.space()
	switch c := j.peek(); {
	case c == '"':
		return j.str()
	case c == '{':
		return j.object(depth, nil)
	case c == '[':
		return j.array(depth)
	case c == '-' || isDigit(c):
		return j.number()
	case c == 't':
		return j.literal("true")
	case c == 'f':
		return j.literal("false")
	case c == 'n':
		return j.literal("null")
	}
	return j.fail("expected a value")
}

// object reads an object and adds its members to into, unless that is nil.
func (j *jsonReader) object(depth int, into *[]member) error {
	if empty, err := j.open(depth, '}'); empty || err != nil {
		return err
	}
	for {
		if j.space(); j.peek() != '"' {
			return j.fail("expected the name of a member")
		}
		start := j.done
		if err := j.str(); err != nil {
			return err
		}
		colon := j.done
		if j.space(); j.peek() != ':' {
			return j.fail("expected ':'")
		}
		j.keepByte()
		if into == nil {
			if err := j.value(depth + 1); err != nil {
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
		if more, err := j.more('}'); !more {
			return err
		}
	}
}

// memberValue reads the value of a member whose object is collected, and collects that of the root's payload too.
func (j *jsonReader) memberValue(name string, depth int) error {
	if depth == 1 && name == "payload" {
		j.payload = j.payload[:0]
		if j.space(); j.peek() == '{' {
			return j.object(depth, &j.payload)
		}
	}
	return j.value(depth)
}

func (j *jsonReader) array(depth int) error {
	if empty, err := j.open(depth, ']'); empty || err != nil {
		return err
	}
	for {
		if err := j.value(depth + 1); err != nil {
			return err
		}
		if more, err := j.more(']'); !more {
			return err
		}
	}
}

// open takes the bracket that begins an object or array, and the one that ends it when nothing is between them.
func (j *jsonReader) open(depth int, end byte) (empty bool, err error) {
	if depth >= MaxDepth {
		return false, j.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	j.keepByte()
	if j.space(); j.peek() != end {
		return false, nil
	}
	j.keepByte()
	return true, nil
}

// more takes what follows a member or element: a comma, or the end of the object or array.
func (j *jsonReader) more(end byte) (bool, error) {
	j.space()
	switch j.peek() {
	case ',':
		j.keepByte()
		return true, nil
	case end:
		j.keepByte()
		return false, nil
	}
	return false, j.fail("expected ',' or '" + string(end) + "'")
}

func (j *jsonReader) str() error {
	b := j.b
	for i := j.next + 1; ; {
		i += plainLen(b[i:])
		if i == len(b) {
			j.next = i
			return j.fail("a string does not end")
		}
		switch b[i] {
		case '"':
			j.keep(i + 1 - j.next)
			return nil
		case '\\':
			n := escapeLen(b[i:])
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

func (j *jsonReader) number() error {
	start := j.next
	if err := j.skipNumber(); err != nil {
		return err
	}
	n := j.next - start
	j.next = start
	j.keep(n)
	return nil
}

func (j *jsonReader) skipNumber() error {
	if j.peek() == '-' {
		j.next++
	}
	if j.peek() == '0' {
		j.next++
	} else if !j.digits() {
		return j.fail("expected a digit")
	}
	if j.peek() == '.' {
		if j.next++; !j.digits() {
			return j.fail("expected a digit")
		}
	}
	if c := j.peek(); c == 'e' || c == 'E' {
		j.next++
		if c := j.peek(); c == '+' || c == '-' {
			j.next++
		}
		if !j.digits() {
			return j.fail("expected a digit")
		}
	}
	return nil
}

func (j *jsonReader) digits() bool {
	start := j.next
	for isDigit(j.peek()) {
		j.next++
	}
	return j.next > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (j *jsonReader) literal(word string) error {
	if end := j.next + len(word); end <= len(j.b) && string(j.b[j.next:end]) == word {
		j.keep(len(word))
		return nil
	}
	return j.fail("expected a value")
}
