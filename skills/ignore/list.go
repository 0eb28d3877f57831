package ignore

import "strings"

// list is one compiled pattern file. The last pattern that matches decides; those that ask only for a name or an
// extension are found by hashing, so that long lists of them cost nothing.
type list struct {
	patterns []pattern
	names    map[string]last // those like "name", "name/" by the whole name
	suffixes map[string]last // those like "*.ext", "*.ext/" by the text after the last dot of the name
	others   []int           // the numbers of the rest
}

// last is the number of the last pattern of a text, -1 for none: of those for everything, and of those for folders only.
type last struct{ any, dir int }

type pattern struct {
	text    string // without "!", leading and trailing slash
	literal int    // bytes of text before the first wildcard
	negated bool
	dirOnly bool
	name    bool // is matched with the last element of a path, not with the whole
	suffix  bool // "*literal"
}

func (l *list) isEmpty() bool { return len(l.patterns) == 0 }

// special are the bytes that make a pattern more than a literal.
const special = "*?[\\"

func (l *list) addPattern(text string) {
	var p pattern
	text, p.negated = strings.CutPrefix(text, "!")
	text, p.dirOnly = strings.CutSuffix(text, "/")
	p.name = !strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/") // it anchors, and has done so now
	if text == "" {
		return // matches nothing
	}
	p.text = text
	if p.literal = strings.IndexAny(text, special); p.literal < 0 {
		p.literal = len(text)
	}
	p.suffix = p.name && text[0] == '*' && !strings.ContainsAny(text[1:], special)
	at := len(l.patterns)
	l.patterns = append(l.patterns, p)
	switch {
	case p.name && p.literal == len(text):
		setLast(&l.names, text, at, p.dirOnly)
	case p.suffix && strings.LastIndexByte(text, '.') == 1:
		setLast(&l.suffixes, text[2:], at, p.dirOnly)
	default:
		l.others = append(l.others, at)
	}
}

func setLast(m *map[string]last, key string, at int, dirOnly bool) {
	if *m == nil {
		*m = map[string]last{}
	}
	now, ok := (*m)[key]
	if !ok {
		now = last{-1, -1}
	}
	if dirOnly {
		now.dir = at
	} else {
		now.any = at
	}
	(*m)[key] = now
}

// laterOf is the larger of at and the number under key.
func laterOf(at int, m map[string]last, key string, isDir bool) int {
	found, ok := m[key]
	if !ok {
		return at
	}
	if isDir {
		at = max(at, found.dir)
	}
	return max(at, found.any)
}

// matchPath judges a path below the folder of the list, name being its last element.
func (l *list) matchPath(path, name string, isDir bool) (ignored, decided bool) {
	at := laterOf(-1, l.names, name, isDir)
	if len(l.suffixes) > 0 {
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			at = laterOf(at, l.suffixes, name[dot+1:], isDir)
		}
	}
	for i := len(l.others) - 1; i >= 0 && l.others[i] > at; i-- {
		if l.patterns[l.others[i]].matchPath(path, name, isDir) {
			at = l.others[i]
		}
	}
	if at < 0 {
		return false, false
	}
	return !l.patterns[at].negated, true
}

func (p *pattern) matchPath(path, name string, isDir bool) bool {
	switch {
	case p.dirOnly && !isDir:
		return false
	case p.suffix:
		return strings.HasSuffix(name, p.text[1:])
	case p.name:
		return strings.HasPrefix(name, p.text[:p.literal]) && matchWildcards(p.text[p.literal:], name[p.literal:], false) == matched
	case !strings.HasPrefix(path, p.text[:p.literal]):
		return false
	}
	// git takes the literal beginning away first, so in a**/b the stars are at the beginning of the rest.
	return matchWildcards(p.text[p.literal:], path[p.literal:], true) == matched
}
