package ignore

import "strings"

// outcome of matching the rest of a pattern with the rest of a text.
type outcome int

const (
	matched    outcome = iota
	mismatched         // here; it may match further on
	pastSlash          // not before the next slash: only ** can go on
	exhausted          // nor anywhere further on: the text is too short
)

// matchWildcards is git's matcher of that name: * ? [...] and backslash as in the shell. With pathname a * or ? matches no
// slash, and ** as a whole element matches any number of elements. With the outcomes besides matched a star stops
// early, so that each star tries each place at most once.
func matchWildcards(p, text string, pathname bool) outcome {
	for i, t := 0, 0; ; i, t = i+1, t+1 {
		if i == len(p) {
			if t < len(text) {
				return mismatched
			}
			return matched
		}
		if t == len(text) && p[i] != '*' {
			return exhausted
		}
		switch p[i] {
		case '\\':
			if i++; i == len(p) || text[t] != p[i] {
				return mismatched
			}
		case '?':
			if pathname && text[t] == '/' {
				return mismatched
			}
		case '*':
			return matchStar(p, i, text[t:], pathname)
		case '[':
			next, in, ok := matchClass(p, i+1, text[t])
			if !ok {
				return exhausted
			}
			if !in || pathname && text[t] == '/' {
				return mismatched
			}
			i = next
		default:
			if text[t] != p[i] {
				return mismatched
			}
		}
	}
}

// matchStar matches p[i:], which begins with a star.
func matchStar(p string, i int, text string, pathname bool) outcome {
	first := i
	for i < len(p) && p[i] == '*' {
		i++
	}
	rest := p[i:]
	slashes := !pathname
	if pathname && i-first > 1 && (first == 0 || p[first-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		if rest != "" && rest[0] == '/' { // no element at all
			if o := matchWildcards(rest[1:], text, pathname); o == matched || o == exhausted {
				return o
			}
		}
		slashes = true
	}
	switch {
	case rest == "" && !slashes && strings.Contains(text, "/"):
		return pastSlash
	case rest == "":
		return matched
	case !slashes && rest[0] == '/': // the whole of one element
		end := strings.IndexByte(text, '/')
		if end < 0 {
			return exhausted
		}
		return matchWildcards(rest[1:], text[end+1:], pathname)
	}
	literal := !strings.Contains(special, rest[:1])
	for ; text != ""; text = text[1:] {
		if literal {
			skip := strings.IndexByte(text, rest[0])
			if !slashes && (skip < 0 || strings.Contains(text[:skip], "/")) {
				if skip < 0 && !strings.Contains(text, "/") {
					return exhausted
				}
				return pastSlash
			}
			if skip < 0 {
				return exhausted
			}
			text = text[skip:]
		}
		switch o := matchWildcards(rest, text, pathname); {
		case o == matched || o == exhausted:
			return o
		case o == pastSlash && !slashes:
			return o
		}
		if !slashes && text[0] == '/' {
			return pastSlash
		}
	}
	return exhausted
}

// matchClass judges whether c is in the set whose opening bracket stands before p[i], and returns where it closes. ok is
// false for a set without end or with an unknown [:name:].
func matchClass(p string, i int, c byte) (end int, in, ok bool) {
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	for first, from := true, byte(0); ; first = false {
		if i >= len(p) {
			return 0, false, false
		}
		switch {
		case p[i] == ']' && !first:
			return i, in != negated, true
		case p[i] == '-' && from != 0 && i+1 < len(p) && p[i+1] != ']':
			if i++; p[i] == '\\' {
				if i++; i == len(p) {
					return 0, false, false
				}
			}
			in = in || from <= c && c <= p[i]
			from = 0 // a range is no beginning of another
		case p[i] == '[' && i+1 < len(p) && p[i+1] == ':':
			length := strings.IndexByte(p[i+2:], ']')
			if length < 0 {
				return 0, false, false
			}
			if name := p[i+2 : i+2+length]; strings.HasSuffix(name, ":") {
				member, known := inNamedClass(name[:length-1], c)
				if !known {
					return 0, false, false
				}
				in, from, i = in || member, 0, i+2+length
			} else {
				in, from = in || c == '[', '['
			}
		default:
			if p[i] == '\\' {
				if i++; i == len(p) {
					return 0, false, false
				}
			}
			in, from = in || c == p[i], p[i]
		}
		i++
	}
}

// inNamedClass judges the POSIX classes. Like git it knows ASCII only, and four characters as space.
func inNamedClass(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	space := c == ' ' || c == '\t' || c == '\n' || c == '\r'
	print := 0x20 <= c && c <= 0x7e
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return print && !space, true
	case "lower":
		return lower, true
	case "print":
		return print, true
	case "punct":
		return print && !space && !lower && !upper && !digit, true
	case "space":
		return space, true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
