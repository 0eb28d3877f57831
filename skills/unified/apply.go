package unified

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/text"
)

// Applied is the place of a hunk that was applied.
type Applied struct {
	Offset int // lines below the place that the patch names; negative if above
	Fuzz   int // lines of context at its ends that were ignored
}

// Reject is a hunk that does not apply.
type Reject struct {
	Hunk     int    `json:"hunk,omitempty"` // from 1
	Header   string `json:"header,omitempty"`
	At       int    `json:"patch_line,omitempty"` // of the header in the patch
	Reason   string `json:"reason"`
	Line     int    `json:"line,omitempty"` // of the file, where the first difference is
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
}

// maxShown bounds a line in a reject, in bytes.
const maxShown = 200

// MaxFuzz bounds the lines of context at each end that may differ.
const MaxFuzz = 3

// Apply applies the hunks to a text. A hunk applies at the place that the patch names or, if its lines have moved, at the only
// place where they are. It rejects a hunk whose lines occur several times, none of them at the named place. A hunk without a
// place may ignore up to fuzz lines of context at its ends. Without rejects every hunk is in applied.
//
// If all lines of the text end in CRLF and those of the patch do not, Apply compares and inserts lines with CRLF.
func (f *File) Apply(text string, fuzz int) (result string, applied []Applied, rejects []Reject) {
	crlf := f.wantsCRLF(text)
	if crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	lines := splitLines(text)
	var out []string
	done, drift := 0, 0 // lines of the text that are in out; offset of the previous hunk
	for i, h := range f.Hunks {
		p, reject := h.findPlace(lines, done, drift, fuzz)
		if reject != nil {
			reject.Hunk, reject.Header, reject.At = i+1, h.Header, h.At
			rejects = append(rejects, *reject)
			continue
		}
		out = append(out, lines[done:p.at]...)
		done = p.at
		before := max(len(out)-1, 0)
		for _, l := range p.lines {
			switch l.Op {
			case '+':
				out = append(out, l.Text)
			case '-':
				done++
			default:
				out = append(out, lines[done]) // keeps the line of the text, also if it fits by fuzz only
				done++
			}
		}
		if joinsLines(out[before:], done < len(lines)) {
			rejects = append(rejects, Reject{Hunk: i + 1, Header: h.Header, At: h.At, Reason: "a line would follow one without a newline"})
			continue
		}
		drift = p.offset
		applied = append(applied, Applied{p.offset, p.fuzz})
	}
	if rejects != nil {
		return "", nil, rejects
	}
	result = strings.Join(append(out, lines[done:]...), "")
	if crlf {
		result = strings.ReplaceAll(result, "\n", "\r\n")
	}
	return result, applied, nil
}

// joinsLines reports whether a line without a newline would be followed by another. more says whether further lines follow.
func joinsLines(lines []string, more bool) bool {
	for i, line := range lines {
		if !strings.HasSuffix(line, "\n") && (more || i < len(lines)-1) {
			return true
		}
	}
	return false
}

func (f *File) wantsCRLF(text string) bool {
	if n := strings.Count(text, "\n"); n == 0 || strings.Count(text, "\r\n") != n {
		return false
	}
	shown := false // a whole line of the text
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			if strings.Contains(l.Text, "\r") {
				return false
			}
			shown = shown || l.Op != '+' && strings.HasSuffix(l.Text, "\n")
		}
	}
	return shown
}

// placed is a hunk at its place.
type placed struct {
	at     int // index of its first line
	lines  []Line
	offset int
	fuzz   int
}

// findPlace finds where the hunk applies to lines[from:].
func (h *Hunk) findPlace(lines []string, from, drift, fuzz int) (placed, *Reject) {
	var first *Reject
	for cut := 0; cut <= fuzz; cut++ {
		part, skipped, ok := h.trimContext(cut)
		if !ok {
			break
		}
		at, reject := h.findLines(part, skipped, lines, from, drift, cut > 0)
		if reject == nil {
			return placed{at, part, at - skipped - h.firstIndex(), cut}, nil
		}
		if first == nil {
			first = reject
		}
	}
	return placed{}, first
}

// firstIndex returns the index of the line at which the patch places the hunk.
func (h *Hunk) firstIndex() int {
	if old, _ := h.Count(); old == 0 {
		return h.OldStart // after that line
	}
	return h.OldStart - 1
}

// trimContext removes up to cut lines of context at each end, skipped of them at the beginning. ok is false if no line can
// be removed.
func (h *Hunk) trimContext(cut int) (part []Line, skipped int, ok bool) {
	part = h.Lines
	if cut == 0 {
		return part, 0, true
	}
	before := len(part)
	for range cut {
		if len(part) > 0 && part[0].Op == ' ' {
			part, skipped = part[1:], skipped+1
		}
		if len(part) > 0 && part[len(part)-1].Op == ' ' {
			part = part[:len(part)-1]
		}
	}
	return part, skipped, len(part) < before
}

func (h *Hunk) findLines(part []Line, skipped int, lines []string, from, drift int, fuzzy bool) (int, *Reject) {
	var old []string
	leading, trailing, context := 0, 0, 0
	for i, l := range part {
		if l.Op == ' ' {
			context++
			trailing++
			if leading == i {
				leading++
			}
		} else {
			trailing = 0
		}
		if l.Op != '+' {
			old = append(old, l.Text)
		}
	}
	// As in git: a hunk that begins at the first line belongs there, one without context behind it to the end.
	atBegin := !fuzzy && h.firstIndex() == 0 && leading == 0
	atEnd := !fuzzy && trailing == 0 && leading > 0
	allowed := func(at int) bool {
		return at >= from && at+len(old) <= len(lines) && (!atBegin || at == 0) && (!atEnd || at+len(old) == len(lines))
	}
	fits := func(at int) bool { return allowed(at) && slices.Equal(lines[at:at+len(old)], old) }
	named := h.firstIndex() + skipped
	if fits(named) {
		return named, nil
	}
	if context == 0 && (len(old) == 0 || fuzzy) {
		return 0, firstDifference(old, lines, named, "nothing but its place tells where it belongs, and that is not there")
	}
	if moved := named + drift; drift != 0 && fits(moved) {
		return moved, nil
	}
	places := slices.DeleteFunc(findAll(old, lines, from), func(at int) bool { return !allowed(at) })
	switch len(places) {
	case 0:
		return 0, firstDifference(old, lines, named, "its lines are not in the file")
	case 1:
		return places[0], nil
	}
	return 0, &Reject{Reason: fmt.Sprintf("its lines are not at the named place, but %d times elsewhere, as at lines %d and %d", len(places), places[0]+1, places[1]+1)}
}

// findAll returns the indexes at which old is in lines[from:]. It takes linear time, by the algorithm of Knuth, Morris and Pratt: many lines
// of a file can be equal.
func findAll(old, lines []string, from int) (places []int) {
	border := make([]int, len(old)+1) // border[i] is the length of the longest proper prefix of old[:i] that is also its suffix
	border[0] = -1
	for i, n := 0, -1; i < len(old); {
		for n >= 0 && old[i] != old[n] {
			n = border[n]
		}
		i, n = i+1, n+1
		border[i] = n
	}
	n := 0 // how many lines of old end before line i
	for i := from; i < len(lines); {
		for n >= 0 && (n == len(old) || lines[i] != old[n]) {
			n = border[n]
		}
		i, n = i+1, n+1
		if n == len(old) {
			places = append(places, i-n)
		}
	}
	return places
}

// firstDifference returns the first line at the named place that differs from the hunk.
func firstDifference(old, lines []string, at int, reason string) *Reject {
	r := &Reject{Reason: reason}
	for i, want := range old {
		if at+i >= len(lines) {
			r.Reason += "; the file ends before"
			r.Line, r.Expected = at+i+1, text.Head(want, maxShown)
			break
		}
		if at+i >= 0 && lines[at+i] != want {
			r.Line, r.Expected, r.Found = at+i+1, text.Head(want, maxShown), text.Head(lines[at+i], maxShown)
			if strings.TrimRight(r.Expected, "\r\n") == strings.TrimRight(r.Found, "\r\n") {
				r.Reason += "; the ends of the lines differ"
			} else if strings.Join(strings.Fields(want), " ") == strings.Join(strings.Fields(lines[at+i]), " ") {
				r.Reason += "; the white space differs"
			}
			break
		}
	}
	return r
}
