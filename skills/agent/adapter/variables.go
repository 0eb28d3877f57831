package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
)

// Variables are the values of {names} in an adapter. In a configuration file, a text that consists of one variable becomes
// the value itself, which may be a list, an object or a number; a member is left out if none of its variables is set.
type Variables map[string]any

// variableNames lists the variables that adapters may use, besides {env:NAME}.
//
//	agent       name of the adapter          session      id to resume or fork from
//	new_session a fresh UUID                 session_mode new, resume or fork
//	home        the session's private HOME   cwd, workspace
//	prompt_file file with the prompt         model, system_append, mode, allow, deny, extra_args: from the input
//	mcp_servers entries by name              output_schema (its JSON), output_schema_file
//	max_turns, max_cost_usd                  command, args, env: of one MCP server (mcp)      pack: folder of a pack
func variableNames() []string {
	return []string{"agent", "session", "new_session", "session_mode", "home", "cwd", "workspace", "prompt_file", "model", "system_append",
		"mode", "allow", "deny", "extra_args", "mcp_servers", "mcp_file", "output_schema", "output_schema_file", "max_turns", "max_cost_usd",
		"command", "args", "command_line", "env", "pack"}
}

func isVariableName(name string) bool {
	env, ok := strings.CutPrefix(name, "env:")
	return ok && proc.IsVariable(env) || slices.Contains(variableNames(), name)
}

func unknownVariables(s string) []string {
	var unknown []string
	eachVariable(s, func(name string) string {
		if !isVariableName(name) {
			unknown = append(unknown, name)
		}
		return ""
	})
	return unknown
}

// eachVariable replaces each {name} with value(name). Braces around other text stay.
func eachVariable(s string, value func(name string) string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '{')
		if open < 0 {
			return b.String() + s
		}
		end := strings.IndexByte(s[open:], '}')
		name := ""
		if end > 0 {
			name = s[open+1 : open+end]
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == ':')
		}) {
			b.WriteString(s[:open+1])
			s = s[open+1:]
			continue
		}
		b.WriteString(s[:open])
		b.WriteString(value(name))
		s = s[open+end+1:]
	}
}

// isSet reports whether a variable has a value other than an empty one.
func (v Variables) isSet(name string) bool {
	switch value := v[name].(type) {
	case nil:
		return false
	case string:
		return value != ""
	case []string:
		return len(value) > 0
	case map[string]any:
		return len(value) > 0
	case bool:
		return value
	}
	return true
}

func (v Variables) textOf(name string) string {
	switch value := v[name].(type) {
	case nil:
		return ""
	case string:
		return value
	case []string:
		return strings.Join(value, ",")
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(v[name])
}

// Expand replaces the variables in s with their values.
func (v Variables) Expand(s string) string { return eachVariable(s, v.textOf) }

// Argv returns the command line without the program.
func (v Variables) Argv(parts []Part) []string {
	var argv []string
	for _, p := range parts {
		if !v.holdAll(p.If) {
			continue
		}
		for _, word := range p.Args {
			argv = append(argv, v.Expand(word))
		}
		if list, ok := v[p.List].([]string); ok && p.List != "" {
			argv = append(argv, list...)
		}
	}
	return argv
}

// holdAll reports whether all conditions of a part hold; see [Part].
func (v Variables) holdAll(conditions string) bool {
	for condition := range strings.SplitSeq(conditions, ",") {
		name, value, compared := strings.Cut(condition, "=")
		name, negated := strings.CutSuffix(name, "!")
		if compared && (v.textOf(name) == value) == negated || !compared && condition != "" && !v.isSet(name) {
			return false
		}
	}
	return true
}

// Value expands a JSON value. It returns false if x is a variable that is not set.
func (v Variables) Value(x any) (any, bool) {
	switch x := x.(type) {
	case string:
		if name, ok := strings.CutPrefix(x, "{"); ok {
			if name, ok = strings.CutSuffix(name, "}"); ok && isVariableName(name) {
				return v[name], v.isSet(name)
			}
		}
		named, set := false, false
		text := eachVariable(x, func(name string) string {
			named, set = true, set || v.isSet(name)
			return v.textOf(name)
		})
		return text, set || !named
	case []any:
		list := []any{}
		for _, item := range x {
			if value, ok := v.Value(item); ok {
				list = append(list, value)
			}
		}
		return list, true
	case map[string]any:
		object := map[string]any{}
		for key, item := range x {
			if value, ok := v.Value(item); ok {
				object[v.Expand(key)] = value
			}
		}
		return object, true
	}
	return x, true
}

// Render returns the content of a configuration file with more merged into it.
func (v Variables) Render(f ConfigFile, more map[string]any) ([]byte, error) {
	var content map[string]any
	if err := json.Unmarshal(f.Content, &content); err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Path, err)
	}
	expanded, _ := v.Value(content)
	object := expanded.(map[string]any)
	mergeInto(object, more)
	if f.Format == "toml" {
		raw, err := json.Marshal(object) // one form of lists and objects, whatever they came from
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", f.Path, err)
		}
		var plain map[string]any
		if err := json.Unmarshal(raw, &plain); err != nil {
			return nil, fmt.Errorf("render %s: %w", f.Path, err)
		}
		var b strings.Builder
		writeTable(&b, "", plain)
		return []byte(b.String()), nil
	}
	raw, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Path, err)
	}
	return append(raw, '\n'), nil
}

func mergeInto(into, more map[string]any) map[string]any {
	for key, value := range more {
		below, ok := into[key].(map[string]any)
		if members, isObject := value.(map[string]any); ok && isObject {
			value = mergeInto(maps.Clone(below), members) // below may belong to a variable
		}
		into[key] = value
	}
	return into
}

// writeTable writes a TOML table: plain members first, then tables below it. It leaves out null, which TOML does not have.
func writeTable(b *strings.Builder, name string, table map[string]any) {
	keys := slices.Sorted(maps.Keys(table))
	for _, key := range keys {
		if _, isTable := table[key].(map[string]any); !isTable && table[key] != nil {
			fmt.Fprintf(b, "%s = %s\n", tomlKey(key), tomlValue(table[key]))
		}
	}
	for _, key := range keys {
		if below, ok := table[key].(map[string]any); ok {
			full := strings.TrimPrefix(name+"."+tomlKey(key), ".")
			fmt.Fprintf(b, "\n[%s]\n", full)
			writeTable(b, full, below)
		}
	}
}

func tomlKey(key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) {
		return tomlString(key)
	}
	return key
}

// tomlString quotes as JSON does: TOML knows the same escapes, and must escape DEL as well.
func tomlString(s string) string {
	raw, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return `""` // a string has no reason to fail
	}
	return strings.ReplaceAll(string(raw), "\x7f", `\u007f`)
}

func tomlValue(x any) string {
	switch x := x.(type) {
	case string:
		return tomlString(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []any:
		var items []string
		for _, item := range x {
			if item != nil {
				items = append(items, tomlValue(item))
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var members []string
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if x[key] != nil {
				members = append(members, tomlKey(key)+" = "+tomlValue(x[key]))
			}
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprint(x)
}

// Part is a part of a command line: a word, or words that are used if a variable is set or has a value, or all of a list.
type Part struct {
	If   string   `json:"if,omitempty"` // NAME, NAME=VALUE or NAME!=VALUE; of several, joined by commas, all must hold
	Args []string `json:"args,omitempty"`
	List string   `json:"list,omitempty"`
}

// ConfigFile is a file in the session's home that is written before the agent starts.
type ConfigFile struct {
	Path    string          `json:"path"`
	Format  string          `json:"format,omitempty"` // json (default), toml
	Content json.RawMessage `json:"content"`
	// Main marks the one that the input "config" is merged into.
	Main bool `json:"main,omitempty"`
}

func (p *Part) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		*p = Part{Args: []string{word}}
		return nil
	}
	type plain Part
	return decodeStrictly(raw, (*plain)(p))
}
