package protocol

import "fmt"

// validate checks that b is exactly one JSON value and reports whether it has insignificant white space.
func validate(b []byte) (spaces bool, err error) {
	v := validator{b: b}
	if err := v.value(0); err != nil {
		return false, err
	}
	if v.space(); v.i < len(b) {
		return false, v.fail("the value ends here, but more text follows")
	}
	return v.spaces, nil
}

type validator struct {
	b      []byte
	i      int
	spaces bool
}

func (v *validator) fail(what string) error { return fmt.Errorf("byte %d: %s", v.i, what) }

// peek is the byte at the cursor, 0 at the end. A NUL is legal nowhere outside of strings, so the two need no telling apart.
func (v *validator) peek() byte {
	if v.i < len(v.b) {
		return v.b[v.i]
	}
	return 0
}

func (v *validator) space() {
	for v.i < len(v.b) {
		switch v.b[v.i] {
		case ' ', '\t', '\r', '\n':
			v.spaces = true
			v.i++
		default:
			return
		}
	}
}

func (v *validator) value(depth int) error {
	v.space()
	switch c := v.peek(); {
	case c == '{':
		return v.container(depth, '}', true)
	case c == '[':
		return v.container(depth, ']', false)
	case c == '"':
		return v.str()
	case c == '-' || isDigit(c):
		return v.number()
	case c == 't':
		return v.literal("true")
	case c == 'f':
		return v.literal("false")
	case c == 'n':
		return v.literal("null")
	}
	return v.fail("expected a value")
}

func (v *validator) container(depth int, end byte, object bool) error {
	if depth >= MaxDepth {
		return v.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	v.i++
	if v.space(); v.peek() == end {
		v.i++
		return nil
	}
	for {
		if object {
			if v.space(); v.peek() != '"' {
				return v.fail("expected the name of a member")
			}
			if err := v.str(); err != nil {
				return err
			}
			if v.space(); v.peek() != ':' {
				return v.fail("expected ':'")
			}
			v.i++
		}
		if err := v.value(depth + 1); err != nil {
			return err
		}
		v.space()
		switch v.peek() {
		case ',':
			v.i++
		case end:
			v.i++
			return nil
		default:
			return v.fail("expected ',' or '" + string(end) + "'")
		}
	}
}

func (v *validator) str() error {
	b := v.b
	for i := v.i + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			v.i = i + 1
			return nil
		case c < ' ':
			v.i = i
			return v.fail("a control character in a string")
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				v.i = i
				return v.fail("an unknown escape in a string")
			}
			i += n - 1
		}
	}
	v.i = len(b)
	return v.fail("a string does not end")
}

// escapeLen is the length of the escape that b begins with, 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (v *validator) number() error {
	if v.peek() == '-' {
		v.i++
	}
	if v.peek() == '0' {
		v.i++
	} else if !v.digits() {
		return v.fail("expected a digit")
	}
	if v.peek() == '.' {
		if v.i++; !v.digits() {
			return v.fail("expected a digit")
		}
	}
	if c := v.peek(); c == 'e' || c == 'E' {
		v.i++
		if c := v.peek(); c == '+' || c == '-' {
			v.i++
		}
		if !v.digits() {
			return v.fail("expected a digit")
		}
	}
	return nil
}

func (v *validator) digits() bool {
	start := v.i
	for isDigit(v.peek()) {
		v.i++
	}
	return v.i > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (v *validator) literal(word string) error {
	if end := v.i + len(word); end <= len(v.b) && string(v.b[v.i:end]) == word {
		v.i = end
		return nil
	}
	return v.fail("expected a value")
}
