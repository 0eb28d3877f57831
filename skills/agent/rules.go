package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Kinds of what an agent says, in our words.
const (
	kindStart      = "start"       // session, model, version, mcp (list of {name,status})
	kindText       = "text"        // text, delta
	kindToolCall   = "tool_call"   // id, name, input
	kindToolResult = "tool_result" // id, failed
	kindRetry      = "retry"       // attempt, status, message
	kindTurn       = "turn"        // id: the same one again is no new turn
	kindUsage      = "usage"       // id, input, cached, output, reasoning, cost: of one answer
	kindError      = "error"       // message: not the end
	kindEnd        = "end"         // the verdict, and totals
)

// kindFields lists the fields of each kind.
func kindFields(kind string) []string {
	usage := []string{"input", "cached", "output", "reasoning", "cost"}
	switch kind {
	case kindStart:
		return []string{"session", "model", "version", "mcp"}
	case kindText:
		return []string{"text", "delta"}
	case kindToolCall:
		return []string{"id", "name", "input"}
	case kindToolResult:
		return []string{"id", "failed"}
	case kindRetry:
		return []string{"attempt", "status", "message"}
	case kindTurn:
		return []string{"id"}
	case kindUsage:
		return append(usage, "id")
	case kindError:
		return []string{"message"}
	case kindEnd:
		return append(usage, "session", "failed", "reason", "status", "text", "structured", "turns", "denials", "errors", "message", "tools")
	}
	return nil
}

// rule turns one thing that an agent prints into one of our kinds. A path names a member, as in message.usage.0.name;
// with a slash in front it starts at the root, else at the element of Each; a.b+a.c is a sum. All rules that match a line are applied.
type rule struct {
	When  map[string]any    `json:"when,omitempty"`  // paths from the root and their values; a list offers several, null means absent
	Each  string            `json:"each,omitempty"`  // a list: the rule is applied to each element
	Where map[string]any    `json:"where,omitempty"` // as When, from the element
	Is    string            `json:"is"`
	Take  map[string]string `json:"take,omitempty"` // our field: path
	Set   map[string]any    `json:"set,omitempty"`  // our field: value
}

func (r rule) check() []protocol.Problem {
	known := kindFields(r.Is)
	if known == nil {
		return []protocol.Problem{{Pointer: "/is", Message: fmt.Sprintf("%q is no kind of event", r.Is)}}
	}
	var problems []protocol.Problem
	for _, field := range slices.Sorted(maps.Keys(r.Take)) {
		if !slices.Contains(known, field) {
			problems = append(problems, protocol.Problem{Pointer: "/take/" + field, Message: "is no field of " + r.Is})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(r.Set)) {
		if !slices.Contains(known, field) {
			problems = append(problems, protocol.Problem{Pointer: "/set/" + field, Message: "is no field of " + r.Is})
		}
	}
	return problems
}

// said is what an agent said, in our words.
type said struct {
	kind   string
	fields map[string]any
}

// apply returns what the rules make of one JSON value.
func apply(rules []rule, root any) []said {
	var all []said
	for _, r := range rules {
		if !matches(r.When, root, root) {
			continue
		}
		items := []any{root}
		if r.Each != "" {
			items, _ = lookup(r.Each, root, root).([]any)
		}
		for _, item := range items {
			if !matches(r.Where, root, item) {
				continue
			}
			s := said{r.Is, map[string]any{}}
			for field, path := range r.Take {
				if value := take(path, root, item); value != nil {
					s.fields[field] = value
				}
			}
			for field, value := range r.Set {
				s.fields[field] = value
			}
			all = append(all, s)
		}
	}
	return all
}

func matches(conditions map[string]any, root, item any) bool {
	for path, want := range conditions {
		got := lookup(path, root, item)
		if options, ok := want.([]any); ok {
			if !slices.ContainsFunc(options, func(o any) bool { return same(o, got) }) {
				return false
			}
		} else if !same(want, got) {
			return false
		}
	}
	return true
}

// same compares values of JSON that are no lists and no objects.
func same(a, b any) bool {
	switch a.(type) {
	case nil, bool, string, float64:
		switch b.(type) {
		case nil, bool, string, float64:
			return a == b
		}
	}
	return false
}

// take is lookup of a path, or the sum of several: a.b+a.c.
func take(path string, root, item any) any {
	terms := strings.Split(path, "+")
	if len(terms) == 1 {
		return lookup(path, root, item)
	}
	sum, found := 0.0, false
	for _, term := range terms {
		if n, ok := lookup(term, root, item).(float64); ok {
			sum, found = sum+n, true
		}
	}
	if !found {
		return nil
	}
	return sum
}

func lookup(path string, root, item any) any {
	at := item
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		at, path = root, rest
	}
	for _, name := range strings.Split(path, ".") {
		switch below := at.(type) {
		case map[string]any:
			at = below[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(below) {
				return nil
			}
			at = below[i]
		default:
			return nil
		}
	}
	return at
}

func (s said) text(field string) string {
	switch value := s.fields[field].(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		raw, err := json.Marshal(value)
		if err != nil {
			return "" // it came from JSON
		}
		return string(raw)
	}
}

func (s said) number(field string) float64 {
	n, _ := s.fields[field].(float64)
	return n
}

func (s said) list(field string) []any {
	list, _ := s.fields[field].([]any)
	return list
}

// truth is false for nothing, false, 0 and "".
func (s said) truth(field string) bool {
	switch value := s.fields[field].(type) {
	case bool:
		return value
	case float64:
		return value != 0
	case string:
		return value != ""
	}
	return s.fields[field] != nil
}
