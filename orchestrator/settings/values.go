package settings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rule is the decision about an action. One that hands out authority is never done without a person: allow asks.
type Rule string

// Rules are the values of Rule.
func Rules() []string { return []string{"ask", "allow", "deny"} }

// ActionNames are the actions that a rule can be about.
func ActionNames() []string {
	return []string{"FETCH_CREDENTIAL", "LABEL_ISSUE", "NOTIFY_USER", "OPEN_ISSUES", "OPEN_PR", "POST_COMMENT", "PUSH_BRANCH", "USE_TOOL"}
}

// Level is how much is logged.
type Level string

// Levels are the values of Level, most first.
func Levels() []string { return []string{"trace", "debug", "info", "warn", "error", "disabled"} }

// Isolation is the level of isolation of sprites of the embedded host.
type Isolation string

// processTree is an older name of Process.
const processTree Isolation = "process-tree"

// Isolations are the values of Isolation, weakest first.
func Isolations() []string {
	return []string{string(Process), string(processTree), string(Namespaces), string(User), string(Root)}
}

// Least is the level that i asks for: process, ns-user or ns-root, "" for none.
func (i Isolation) Least() string {
	switch i {
	case processTree:
		return string(Process)
	case Namespaces:
		return string(User)
	default:
		return string(i)
	}
}

// Network is the name of a network policy.
type Network string

// Networks are the values of Network: package registries, git forges and models; nothing; every public address.
func Networks() []string { return []string{"defaults", "none", "open"} }

// Duration is a length of time, written like "90s" or "1h30m".
type Duration time.Duration

// UnmarshalText reads a positive duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%q is no length of time such as 90s, 5m or 1h30m", text)
	case v <= 0:
		return fmt.Errorf("%s is not longer than nothing", text)
	}
	*d = Duration(v)
	return nil
}

// Size is a number of bytes, written as digits and K, M, G or T for powers of 1024.
type Size int64

// UnmarshalText reads a size above zero.
func (s *Size) UnmarshalText(text []byte) error {
	digits, binary := strings.CutSuffix(strings.TrimSuffix(strings.ToUpper(string(text)), "B"), "I")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1<<62>>shift || binary && shift == 0 {
		return fmt.Errorf("%q is no size such as 512M or 2G", text)
	}
	*s = Size(n << shift)
	return nil
}

// Finding is one thing that is wrong with a settings file.
type Finding struct {
	Code    string `json:"code"`
	Line    int    `json:"line,omitempty"` // from 1; 0 if unknown
	Key     string `json:"key,omitempty"`  // dotted
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Text is the finding on one line.
func (f Finding) Text() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// The values of Isolation, weakest first.
const (
	Process    Isolation = "process"    // none: programs can read and change the files of the machine
	Namespaces Isolation = "namespaces" // either of the next
	User       Isolation = "ns-user"    // namespaces, made by an ordinary user, with that user's rights outside
	Root       Isolation = "ns-root"    // namespaces, made by root, without any rights outside
)

var (
	variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
	// tokenLike matches credentials in places for the names of variables or files.
	tokenLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./+=-]*[0-9][A-Za-z0-9_./+=-]{19,}$`) })
)

// shortenValue shortens a value that may be a misplaced secret.
func shortenValue(text string) string {
	if len(text) > 8 {
		return text[:4] + "…"
	}
	return text
}
