package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Kinds of events, with their fields.
const (
	KindStart      = "start"       // session, model, version, mcp (list of {name,status})
	KindText       = "text"        // text, delta
	KindToolCall   = "tool_call"   // id, name, input
	KindToolResult = "tool_result" // id, failed
	KindRetry      = "retry"       // attempt, status, message
	KindPlan       = "plan"        // entries (list of {content,status})
	KindTurn       = "turn"        // id: a second event with the same one is not counted
	KindUsage      = "usage"       // id, input, cached, output, reasoning, cost: of one answer
	KindLimit      = "limit"       // resets_at: seconds since 1970 at which the provider's usage limit ends
	KindError      = "error"       // message: the agent continues
	KindEnd        = "end"         // the verdict, and totals
)

// kindFields lists the fields of each kind.
func kindFields(kind string) []string {
	usage := []string{"input", "cached", "output", "reasoning", "cost"}
	switch kind {
	case KindStart:
		return []string{"session", "model", "version", "mcp"}
	case KindText:
		return []string{"text", "delta"}
	case KindToolCall:
		return []string{"id", "name", "input"}
	case KindToolResult:
		return []string{"id", "failed"}
	case KindRetry:
		return []string{"attempt", "status", "message"}
	case KindPlan:
		return []string{"entries"}
	case KindTurn:
		return []string{"id"}
	case KindUsage:
		return append(usage, "id")
	case KindLimit:
		return []string{"resets_at"}
	case KindError:
		return []string{"message"}
	case KindEnd:
		return append(usage, "session", "failed", "reason", "status", "text", "structured", "turns", "denials", "errors", "message", "tools")
	}
	return nil
}

// Rule turns a JSON value that an agent prints into an event. A path names a member, as in message.usage.0.name; with a
// leading slash it starts at the root, else at the element of Each; a.b+a.c is a sum. All rules that match a value apply.
type Rule struct {
	When  map[string]any    `json:"when,omitempty"`  // paths from the root and their values; a list offers several, null means absent
	Each  string            `json:"each,omitempty"`  // a list: the rule is applied to each element
	Where map[string]any    `json:"where,omitempty"` // as When, from the element
	Is    string            `json:"is"`
	Take  map[string]string `json:"take,omitempty"` // our field: path
	Set   map[string]any    `json:"set,omitempty"`  // our field: value
}

// check returns the problems of a rule.
func (r Rule) check() []protocol.Problem {
	known := kindFields(r.Is)
	if known == nil {
		return []protocol.Problem{{Pointer: "/is", Message: fmt.Sprintf("%q is not a kind of event", r.Is)}}
	}
	var problems []protocol.Problem
	for _, field := range slices.Sorted(maps.Keys(r.Take)) {
		if !slices.Contains(known, field) {
			problems = append(problems, protocol.Problem{Pointer: "/take/" + field, Message: "is not a field of " + r.Is})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(r.Set)) {
		if !slices.Contains(known, field) {
			problems = append(problems, protocol.Problem{Pointer: "/set/" + field, Message: "is not a field of " + r.Is})
		}
	}
	return problems
}

// Event is something that an agent reported, such as a call of a tool, independent of the agent.
type Event struct {
	Kind   string
	Fields map[string]any
}

// Apply returns the events that the rules make of a JSON value.
func Apply(rules []Rule, root any) []Event {
	var all []Event
	for _, r := range rules {
		if !matchesAll(r.When, root, root) {
			continue
		}
		items := []any{root}
		if r.Each != "" {
			items, _ = lookup(r.Each, root, root).([]any)
		}
		for _, item := range items {
			if !matchesAll(r.Where, root, item) {
				continue
			}
			s := Event{r.Is, map[string]any{}}
			for field, path := range r.Take {
				if value := takeValue(path, root, item); value != nil {
					s.Fields[field] = value
				}
			}
			maps.Copy(s.Fields, r.Set)
			all = append(all, s)
		}
	}
	return all
}

// matchesAll reports whether the values at all paths are as demanded.
func matchesAll(conditions map[string]any, root, item any) bool {
	for path, want := range conditions {
		got := lookup(path, root, item)
		if options, ok := want.([]any); ok {
			if !slices.ContainsFunc(options, func(o any) bool { return equalScalars(o, got) }) {
				return false
			}
		} else if !equalScalars(want, got) {
			return false
		}
	}
	return true
}

// equalScalars compares two JSON values; lists and objects are never equal.
func equalScalars(a, b any) bool {
	switch a.(type) {
	case nil, bool, string, float64:
		switch b.(type) {
		case nil, bool, string, float64:
			return a == b
		}
	}
	return false
}

// takeValue returns the value at a path, or the sum of those at several paths (a.b+a.c).
func takeValue(path string, root, item any) any {
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

// lookup returns the value at a path, nil if it is absent.
func lookup(path string, root, item any) any {
	at := item
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		at, path = root, rest
	}
	for name := range strings.SplitSeq(path, ".") {
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

// Text returns a field as text; a field that is not a string is encoded as JSON.
func (s Event) Text(field string) string {
	switch value := s.Fields[field].(type) {
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

// Number returns a field, 0 if it is not a number.
func (s Event) Number(field string) float64 {
	n, _ := s.Fields[field].(float64)
	return n
}

// List returns a field, nil if it is not a list.
func (s Event) List(field string) []any {
	list, _ := s.Fields[field].([]any)
	return list
}

// Truth returns false if a field is absent, false, 0 or "".
func (s Event) Truth(field string) bool {
	switch value := s.Fields[field].(type) {
	case bool:
		return value
	case float64:
		return value != 0
	case string:
		return value != ""
	}
	return s.Fields[field] != nil
}
