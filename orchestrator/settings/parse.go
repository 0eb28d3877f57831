package settings

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/tomlkey"
)

// MaxSize bounds a settings file, in bytes.
const MaxSize = 1 << 20

// The codes of findings.
const (
	CodeSyntax     = "settings_syntax"      // no TOML
	CodeUnknownKey = "settings_unknown_key" // nothing reads it
	CodeType       = "settings_type"        // a value of another type
	CodeValue      = "settings_value"       // a value that cannot be meant
	CodeSecret     = "settings_secret"      // a credential itself, instead of where it is
)

// Parse reads the text of a settings file. When anything is wrong with it, all of that is returned, ordered by line, and
// the settings are not to be used.
func Parse(text []byte) (Settings, []Finding) { return Decode(text, checkSettings) }

// Decode reads TOML into a struct by the json names of its members, strictly, and then calls check. It returns all findings,
// ordered by line, and then no value. Another file in TOML is read in the same way.
func Decode[T any](text []byte, check func(T) []Finding) (T, []Finding) {
	var to, none T
	if len(text) > MaxSize {
		return none, []Finding{{Code: CodeSyntax, Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(text), MaxSize)}}
	}
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		return none, []Finding{syntaxFinding(err)}
	}
	r := reader{}
	r.readTable("", tree, reflect.ValueOf(&to).Elem())
	r.findings = append(r.findings, check(to)...)
	if len(r.findings) == 0 {
		return to, nil
	}
	lines := tomlkey.Parse(string(text))
	for i, f := range r.findings {
		r.findings[i].Line = lines[f.Key]
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int { return a.Line - b.Line })
	return none, r.findings
}

func syntaxFinding(err error) Finding {
	var p toml.ParseError
	if !errors.As(err, &p) {
		return Finding{Code: CodeSyntax, Message: err.Error()}
	}
	message := p.Message
	if message == "" {
		message = strings.TrimPrefix(p.Error(), "toml: ")
	}
	return Finding{Code: CodeSyntax, Line: p.Position.Line, Key: p.LastKey, Message: message, Hint: "the file is TOML: key = value, text in quotes, [tables] in brackets"}
}

// reader fills a struct from a decoded table, by the json names of its members, and notes the members that do not fit.
type reader struct{ findings []Finding }

func (r *reader) readTable(at string, from map[string]any, to reflect.Value) {
	members := map[string]reflect.Value{}
	for i := range to.NumField() {
		name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		members[name] = to.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		key := joinKey(at, name)
		if member, ok := members[name]; ok {
			r.readValue(key, from[name], member)
			continue
		}
		r.reportUnknown(key, at, name, slices.Sorted(maps.Keys(members)))
	}
}

// secretWords name keys under which people would write a credential.
var secretWords = []string{"token", "secret", "password", "api_key", "apikey", "key"}

func (r *reader) reportUnknown(key, at, name string, known []string) {
	f := Finding{Code: CodeUnknownKey, Key: key, Message: "there is no such setting"}
	if slices.Contains(secretWords, strings.ToLower(name)) {
		f.Code, f.Message = CodeSecret, "settings hold no credentials, only where they are"
		f.Hint = "token_env names an environment variable, token_file a file that only you may read"
		if strings.HasPrefix(at, "models.") {
			f.Hint = strings.ReplaceAll(f.Hint, "token_", "key_")
		}
	} else if near := nearestName(name, known); near != "" {
		f.Hint = "did you mean " + joinKey(at, near) + "?"
	} else {
		f.Hint = "known here: " + strings.Join(known, ", ")
	}
	r.findings = append(r.findings, f)
}

func (r *reader) readValue(key string, from any, to reflect.Value) {
	if to.CanAddr() {
		if u, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
			text, ok := from.(string)
			if !ok {
				r.reportType(key, "text in quotes", from)
			} else if err := u.UnmarshalText([]byte(text)); err != nil {
				r.findings = append(r.findings, Finding{Code: CodeValue, Key: key, Message: err.Error()})
			}
			return
		}
	}
	switch to.Kind() {
	case reflect.Struct:
		table, ok := from.(map[string]any)
		if !ok {
			r.reportType(key, "a table", from)
			return
		}
		r.readTable(key, table, to)
	case reflect.String:
		text, ok := from.(string)
		if !ok {
			r.reportType(key, "text in quotes", from)
			return
		}
		to.SetString(text)
	case reflect.Bool:
		yes, ok := from.(bool)
		if !ok {
			r.reportType(key, "true or false", from)
			return
		}
		to.SetBool(yes)
	case reflect.Int:
		n, ok := from.(int64)
		if !ok {
			r.reportType(key, "a whole number", from)
			return
		}
		to.SetInt(n)
	case reflect.Float64:
		switch n := from.(type) {
		case int64:
			to.SetFloat(float64(n))
		case float64:
			to.SetFloat(n)
		default:
			r.reportType(key, "a number", from)
		}
	case reflect.Pointer: // to a member that may be left out and may be zero
		to.Set(reflect.New(to.Type().Elem()))
		r.readValue(key, from, to.Elem())
	case reflect.Map: // of tables, by names that people choose
		tables, ok := from.(map[string]any)
		if !ok {
			r.reportType(key, "a table", from)
			return
		}
		to.Set(reflect.MakeMap(to.Type()))
		for _, name := range slices.Sorted(maps.Keys(tables)) {
			member := reflect.New(to.Type().Elem()).Elem()
			r.readValue(joinKey(key, name), tables[name], member)
			to.SetMapIndex(reflect.ValueOf(name), member)
		}
	case reflect.Slice:
		r.readList(key, from, to)
	case reflect.Interface: // of any type
		to.Set(reflect.ValueOf(from))
	default:
		panic("settings knows no way to read a " + to.Type().String())
	}
}

// readList reads texts or whole numbers.
func (r *reader) readList(key string, from any, to reflect.Value) {
	items, ok := from.([]any)
	list := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		v := reflect.ValueOf(item)
		switch {
		case v.IsValid() && to.Type().Elem().Kind() == reflect.String && v.Kind() == reflect.String:
			list.Index(i).SetString(v.String())
		case v.IsValid() && to.Type().Elem().Kind() == reflect.Int && v.Kind() == reflect.Int64:
			list.Index(i).SetInt(v.Int())
		default:
			ok = false
		}
	}
	if !ok {
		want := "a list of texts"
		if to.Type().Elem().Kind() == reflect.Int {
			want = "a list of whole numbers"
		}
		r.reportType(key, want, from)
		return
	}
	to.Set(list)
}

func (r *reader) reportType(key, want string, got any) {
	r.findings = append(r.findings, Finding{Code: CodeType, Key: key, Message: fmt.Sprintf("it must be %s, not %s", want, kindOf(got))})
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "such a list"
	}
	return "a date"
}

func joinKey(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// nearestName is the name that differs least from word, "" when none is near.
func nearestName(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, name := range names {
		if d := manifests.Distance(strings.ToLower(word), name); d < least {
			best, least = name, d
		}
	}
	return best
}
