package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Progress is the part of an iteration by which it is compared with others: two with equal fingerprints went the same way.
type Progress struct {
	Tree    string   `json:"tree"`    // of the commit
	Passing []string `json:"passing"` // tasks
	Failing []string `json:"failing"` // tests
	Error   string   `json:"error"`   // text of the failure
}

// Fingerprint returns a digest of p. The order of tasks and tests does not count, nor do the parts of an error that differ
// between two runs of the same program.
func Fingerprint(p Progress) string {
	p.Passing, p.Failing, p.Error = sortedSet(p.Passing), sortedSet(p.Failing), NormalizeError(p.Error)
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

func sortedSet(list []string) []string {
	set := append([]string{}, list...)
	for i, s := range set {
		set[i] = strings.Join(strings.Fields(s), " ")
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// maxError is the length of a normalized error. The beginning of an error tells it from others.
const maxError = 600

// replacement replaces the matches of an expression.
type replacement struct {
	re *regexp.Regexp
	by string
}

// volatile returns the parts of an error that differ between two runs of the same program, in the order in which they are replaced.
var volatile = sync.OnceValue(func() []replacement {
	return []replacement{
		{regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`), ""},
		{regexp.MustCompile(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "ID"},
		{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?`), "TIME"},
		{regexp.MustCompile(`\b\d\d:\d\d:\d\d([.,]\d+)?\b`), "TIME"},
		{regexp.MustCompile(`(/private)?(/var)?/tmp/[^\s:"',)]*`), "TMP"},
		{regexp.MustCompile(`\b0x[0-9a-fA-F]+\b`), "ADDR"},
		{regexp.MustCompile(`\b[0-9a-f]{7,}\b`), "HEX"}, // see replaceDigest
		{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|us|ms|s|sec|seconds|min|minutes|m)\b`), "DURATION"},
		{regexp.MustCompile(`(?i)\b(pid|port|process|goroutine|thread)([ :=#]+)\d+\b`), "$1${2}N"},
		{regexp.MustCompile(`\b(localhost|127\.0\.0\.1|\[::1\]):\d+\b`), "$1:N"},
		{regexp.MustCompile(`(\.[A-Za-z]\w{0,5}):\d+(:\d+)?\b`), "$1:LINE"},
		{regexp.MustCompile(`(?i)\b(line|lines|column|col)([ :]+)\d+\b`), "${1}${2}N"},
	}
})

// NormalizeError returns an error without the parts that differ between two runs of the same program: times, durations, ids,
// addresses, temporary paths, numbers of processes, ports and lines, colours and white space. Other numbers count.
func NormalizeError(text string) string {
	for _, v := range volatile() {
		if v.by == "HEX" {
			text = v.re.ReplaceAllStringFunc(text, replaceDigest)
			continue
		}
		text = v.re.ReplaceAllString(text, v.by)
	}
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxError {
		text = string(runes[:maxError])
	}
	return text
}

// replaceDigest returns HEX in place of a digest. A word and a decimal number stay as they are.
func replaceDigest(text string) string {
	if len(text) < 32 && (!strings.ContainsAny(text, "0123456789") || !strings.ContainsAny(text, "abcdef")) {
		return text
	}
	return "HEX"
}
