package finding

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SetPlaces sets Line and Column of findings about a document: the place of the member or element that Pointer names, or of its
// nearest parent in the document. Findings about a text that is not JSON get the place of the error.
func SetPlaces(data []byte, findings []Finding) []Finding {
	if len(findings) == 0 {
		return findings
	}
	starts := map[string]int{}
	broken := -1
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		broken = max(min(int(syntax.Offset), len(data))-1, 0)
	} else if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		noteStarts(d, data, "", skipSpace(data, 0), starts)
	}
	for i := range findings {
		at := broken
		if at < 0 {
			at = nearestStart(starts, findings[i].Pointer)
		}
		before := data[:at]
		line := bytes.LastIndexByte(before, '\n') + 1
		findings[i].Line, findings[i].Column = 1+bytes.Count(before, []byte("\n")), 1+utf8.RuneCount(before[line:])
	}
	return findings
}

// nearestStart returns the start of the value at a pointer, or of its nearest parent.
func nearestStart(starts map[string]int, pointer string) int {
	for at := pointer; at != ""; at = at[:max(strings.LastIndexByte(at, '/'), 0)] {
		if start, ok := starts[at]; ok {
			return start
		}
	}
	return starts[""]
}

// noteStarts reads a value, and notes where the key of each member and each element begins. Of equal keys the last one counts.
func noteStarts(d *json.Decoder, data []byte, pointer string, start int, starts map[string]int) {
	starts[pointer] = start
	token, err := d.Token()
	if delim, ok := token.(json.Delim); err != nil || !ok || delim != '[' && delim != '{' {
		return
	}
	for n := 0; d.More(); n++ {
		at := skipSpace(data, int(d.InputOffset()))
		name := strconv.Itoa(n)
		if token == json.Delim('{') {
			key, err := d.Token()
			text, ok := key.(string)
			if err != nil || !ok {
				return
			}
			name = EscapePointer(text)
		}
		noteStarts(d, data, pointer+"/"+name, at, starts)
	}
	_, _ = d.Token() // the end; the text is known to be JSON
}

// skipSpace returns the start of the token behind a place, which a comma may separate.
func skipSpace(data []byte, at int) int {
	for at < len(data) && strings.IndexByte(" \t\r\n,", data[at]) >= 0 {
		at++
	}
	return at
}
