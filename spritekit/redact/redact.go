// Package redact takes known secrets out of text. Start with [New]; [Secrets.Writer] redacts a stream, in pieces of any size.
//
// A secret is found as it is, and in the encodings in which programs print it: base64 in both alphabets and at each alignment,
// hexadecimal, escaped for URLs, for JSON and as \xNN, in part or as a whole. White space in between hides nothing, so that a
// text that was broken into lines is found, too. A secret that is compressed, encrypted, reversed or encoded twice is not found.
//
// Text is searched twice: as it is, and in a plain view without escapes and white space, of which each byte knows the part of
// the text (a token) that it stands for. Only whole tokens are replaced, so JSON stays JSON.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// Shortest is the length in bytes of the shortest value that is looked for. Shorter ones are found everywhere.
const Shortest = 6

// Secrets are values that no output may show. The zero value and nil are no values. It is safe for concurrent use.
type Secrets struct {
	raw     [][]byte // forms in text
	plain   [][]byte // forms in the plain view
	longest int
}

// New returns the secrets with the values.
func New(values ...string) *Secrets {
	s := &Secrets{}
	for _, v := range values {
		if len(v) < Shortest {
			continue
		}
		forms := Forms(v)
		for _, form := range forms {
			s.raw = addForm(s.raw, []byte(form))
			s.plain = addForm(s.plain, newView([]byte(form)).text)
		}
		s.plain = addForm(s.plain, bytes.Join(bytes.Fields([]byte(v)), nil))
	}
	for _, form := range s.raw {
		s.longest = max(s.longest, len(form))
	}
	return s
}

func addForm(forms [][]byte, form []byte) [][]byte {
	if len(form) < Shortest || slices.ContainsFunc(forms, func(f []byte) bool { return bytes.Equal(f, form) }) {
		return forms
	}
	return append(forms, form)
}

// Forms returns a value and its encodings. Those in base64 lack the characters that depend on the neighbours.
func Forms(v string) []string {
	lower := hex.EncodeToString([]byte(v))
	forms := []string{v, lower, strings.ToUpper(lower), url.QueryEscape(v), url.PathEscape(v)}
	if quoted, err := json.Marshal(v); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	for before := range 3 {
		whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
		form := whole[(before*8+5)/6 : (before+len(v))*8/6]
		forms = append(forms, form, strings.NewReplacer("+", "-", "/", "_").Replace(form))
	}
	return forms
}

// Any reports whether there are secrets to look for.
func (s *Secrets) Any() bool { return s != nil && len(s.raw) > 0 }

// Longest returns the length of the longest encoding of a secret.
func (s *Secrets) Longest() int {
	if s == nil {
		return 0
	}
	return s.longest
}

// Span is a part of a text, from Begin to before End.
type Span struct{ Begin, End int }

// Find returns the parts of p that hold secrets, in order and apart from each other.
func (s *Secrets) Find(p []byte) []Span {
	if !s.Any() {
		return nil
	}
	return s.findSpans(p, newView(p))
}

func (s *Secrets) findSpans(p []byte, v view) []Span {
	if !s.Any() {
		return nil
	}
	var found []Span
	for _, form := range s.raw {
		eachIndex(p, form, func(i int) { found = append(found, Span{v.floorToken(i), v.ceilToken(i + len(form))}) })
	}
	for _, form := range s.plain {
		eachIndex(v.text, form, func(i int) { found = append(found, Span{v.at[i], v.end[i+len(form)-1]}) })
	}
	slices.SortFunc(found, func(a, b Span) int {
		if a.Begin != b.Begin {
			return a.Begin - b.Begin
		}
		return b.End - a.End
	})
	return mergeSpans(found)
}

// mergeSpans joins spans that overlap. They are in the order in which they begin.
func mergeSpans(found []Span) []Span {
	merged := found[:0]
	for _, f := range found {
		if n := len(merged); n > 0 && f.Begin < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, f.End)
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

// eachIndex calls visit with each place of form in text; places may overlap.
func eachIndex(text, form []byte, visit func(i int)) {
	for from := 0; ; {
		i := bytes.Index(text[from:], form)
		if i < 0 {
			return
		}
		visit(from + i)
		from += i + 1
	}
}

// Bytes returns p without secrets. It returns p itself if there are none.
func (s *Secrets) Bytes(p []byte) []byte {
	found := s.Find(p)
	if len(found) == 0 {
		return p
	}
	out, from := make([]byte, 0, len(p)), 0
	for _, f := range found {
		out = append(append(out, p[from:f.Begin]...), Mark...)
		from = f.End
	}
	return append(out, p[from:]...)
}

// Text returns a text without secrets.
func (s *Secrets) Text(t string) string {
	if !s.Any() {
		return t
	}
	return string(s.Bytes([]byte(t)))
}

// JSON returns a JSON value without secrets, which is still JSON: a number that holds one becomes text.
func (s *Secrets) JSON(raw json.RawMessage) json.RawMessage {
	out := s.Bytes(raw)
	if len(out) == len(raw) && bytes.Equal(out, raw) || json.Valid(out) {
		return out
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return out // it was no JSON before
	}
	out, err := json.Marshal(s.redactValue(v))
	if err != nil {
		return json.RawMessage(`"` + Mark + `"`)
	}
	return out
}

func (s *Secrets) redactValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.Text(v)
	case json.Number:
		if text := s.Text(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = s.redactValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[s.Text(name)] = s.redactValue(member)
		}
		return out
	}
	return v
}

// view is a text without white space and escapes. Byte i of it stands for the part of the text from at[i] to before end[i].
type view struct {
	text    []byte
	at, end []int
	tokens  []Span // of more than one byte
	open    int    // where a token begins that the end of the text cuts off; else the length of the text
}

// newView returns the plain view of p.
func newView(p []byte) view {
	v := view{text: make([]byte, 0, len(p)), at: make([]int, 0, len(p)), end: make([]int, 0, len(p)), open: len(p)}
	for i := 0; i < len(p); {
		char, size, cut := readToken(p[i:])
		if cut {
			v.open = min(v.open, i)
		}
		if size > 1 {
			v.tokens = append(v.tokens, Span{i, i + size})
		}
		for _, c := range char {
			if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
				v.text, v.at, v.end = append(v.text, c), append(v.at, i), append(v.end, i+size)
			}
		}
		i += size
	}
	return v
}

// readToken returns the bytes for which the beginning of p stands, and its size in p. cut reports that more text could make
// another token of it.
func readToken(p []byte) (char []byte, size int, cut bool) {
	switch p[0] {
	case '%':
		return hexToken(p, 1, 2)
	case '\\':
		if len(p) == 1 {
			return p[:1], 1, true
		}
		switch p[1] {
		case 'n', 'r', 't':
			return nil, 2, false
		case '\\', '"', '\'', '/':
			return p[1:2], 2, false
		case 'x':
			return hexToken(p, 2, 2)
		case 'u':
			return hexToken(p, 2, 4)
		}
	}
	return p[:1], 1, false
}

// hexToken reads a token of a prefix and digits.
func hexToken(p []byte, prefix, digits int) (char []byte, size int, cut bool) {
	code, n := 0, prefix
	for ; n < prefix+digits; n++ {
		if n == len(p) {
			return p[:1], 1, true
		}
		d := strings.IndexByte("0123456789abcdef", p[n]|0x20)
		if d < 0 || p[n] < '0' {
			return p[:1], 1, false
		}
		code = code<<4 | d
	}
	if digits == 2 {
		return []byte{byte(code)}, n, false
	}
	return utf8.AppendRune(nil, rune(code)), n, false
}

// tokenAround returns the token of several bytes in which a boundary at i lies.
func (v view) tokenAround(i int) (Span, bool) {
	n, _ := slices.BinarySearchFunc(v.tokens, i, func(t Span, i int) int { return t.End - i - 1 }) // the first that ends after i
	if n < len(v.tokens) && v.tokens[n].Begin < i {
		return v.tokens[n], true
	}
	return Span{}, false
}

// floorToken and ceilToken return the nearest boundary of tokens before and after i.
func (v view) floorToken(i int) int {
	if t, ok := v.tokenAround(i); ok {
		return t.Begin
	}
	return i
}

func (v view) ceilToken(i int) int {
	if t, ok := v.tokenAround(i); ok {
		return t.End
	}
	return i
}
