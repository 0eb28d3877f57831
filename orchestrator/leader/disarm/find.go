package disarm

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Finding is text that looks like more than it is.
type Finding struct {
	Kind Kind
	What string // for people: a name, never the text itself
}

// Kind is the kind of a finding.
type Kind string

const (
	Event    Kind = "event"    // a line of the protocol between skills and lattice
	CI       Kind = "ci"       // a command for the machine that runs CI
	Terminal Kind = "terminal" // a sequence that a terminal carries out: not of colours
	Bidi     Kind = "bidi"     // characters that turn the order of writing around
	Markup   Kind = "markup"   // HTML that a browser would carry out
)

// kinds are all kinds, each with the function that names its finding in a text, "" for none.
var kinds = []struct {
	Kind
	find func(p []byte) string
}{
	{Event, findEvent},
	{CI, findCI},
	{Terminal, findTerminal},
	{Bidi, findBidi},
	{Markup, findMarkup},
}

// Find returns the findings in a text, each kind once.
func Find(p []byte) (all []Finding) {
	for _, k := range kinds {
		if what := k.find(p); what != "" {
			all = append(all, Finding{k.Kind, what})
		}
	}
	return all
}

const eventMark = "LATTICE_EVENT"

func findEvent(p []byte) string {
	if bytes.Contains(p, []byte(eventMark)) {
		return eventMark
	}
	return ""
}

var ciPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*::(add-mask|debug|echo|endgroup|error|group|notice|save-state|set-env|set-output|stop-commands|warning|add-path)\b[^\n]*?::`)
})

func findCI(p []byte) string {
	if !bytes.Contains(p, []byte("::")) {
		return ""
	}
	if m := ciPattern().FindSubmatch(p); m != nil {
		return "::" + string(m[1]) + "::"
	}
	return ""
}

// introducers begin the sequences that do more than colours: ESC and a byte, or a character of C1 alone.
var introducers = map[rune]string{']': "OSC", 'P': "DCS", 'X': "SOS", '^': "PM", '_': "APC", 0x90: "DCS", 0x98: "SOS", 0x9b: "CSI", 0x9d: "OSC", 0x9e: "PM", 0x9f: "APC"}

// reports matches the sequences that have a terminal answer, as if its user typed the answer.
var reports = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b\[[0-9;?>=!]*([cnt])`) })

var oscNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,4}`) })

func findTerminal(p []byte) string {
	for at := 0; at < len(p); {
		r, size := rune(p[at]), 1
		switch {
		case r == 0x1b && at+1 < len(p):
			r = rune(p[at+1])
			if size = 2; r == 0x1b { // a second ESC starts a sequence of its own
				size = 1
			}
		case r >= utf8.RuneSelf:
			decoded, n := utf8.DecodeRune(p[at:])
			if n > 1 {
				r, size = decoded, n
			}
			if r < 0x80 || r > 0x9f {
				at += size
				continue
			}
		default:
			at++
			continue
		}
		at += size
		if name := introducers[r]; name == "OSC" {
			return strings.TrimSpace(name + " " + string(oscNumber().Find(p[at:])))
		} else if name != "" {
			return name
		}
	}
	if bytes.IndexByte(p, 0x1b) >= 0 {
		if m := reports().FindSubmatch(p); m != nil {
			return "CSI " + string(m[1])
		}
	}
	return ""
}

func findBidi(p []byte) string {
	at := bytes.IndexAny(p, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
	if at < 0 {
		return ""
	}
	r, _ := utf8.DecodeRune(p[at:])
	return fmt.Sprintf("U+%04X", r)
}

// markupPattern matches elements that run or load something, and attributes with code. A name of an element ends at a space, a slash or a
// bracket; values in quotes can hold brackets.
var markupPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(script|iframe|object|embed)[\s/>]|<[a-z][^\s/>]*[\s/](?:(?:[^>]|"[^"]*"|'[^']*')*?[\s/"'])?(on[a-z]+)\s*=`)
})

func findMarkup(p []byte) string {
	if bytes.IndexByte(p, '<') >= 0 {
		if m := markupPattern().FindSubmatch(p); m != nil {
			return strings.ToLower(string(m[1]) + string(m[2]))
		}
	}
	if bytes.IndexByte(p, ':') >= 0 && bytes.Contains(bytes.ToLower(p), []byte("javascript:")) {
		return "javascript"
	}
	return ""
}
