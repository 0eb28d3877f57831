// Package templates holds the prompts of models: files that are owned, hashed and filled in without any logic. Start with
// Template; Builtin returns those that come with lattice, Parse reads those of others. A document names a template by its
// id and may pin its bytes by their digest.
package templates

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed *.json
var files embed.FS

// Template is a prompt for one kind of question to a model: texts with marks, and nothing that is executed.
//
//	{{port}}            the value of an input port, as one line of JSON between BEGIN port and END port
//	{{output_schema}}   the JSON Schema of the answer, in the same way
//	{{packet}}          the faults of the answer before, in the repair text alone
//
// Values come into the user's and the repair text only: the system text has one author. JSON on one line
// holds no line end, so that no value can end its own block.
type Template struct {
	ID           string                     `json:"id"` // ends in _v and a number: other bytes are another template
	Op           string                     `json:"op"` // of the nodes that it is for
	Version      string                     `json:"version"`
	Description  string                     `json:"description,omitempty"`
	InputPorts   map[string]json.RawMessage `json:"input_ports"`             // JSON Schema of each; all are required
	OutputSchema string                     `json:"output_schema,omitempty"` // the only one that it fits; "" = any
	System       Lines                      `json:"system"`
	User         Lines                      `json:"user"`
	Repair       Lines                      `json:"repair"` // follows User when an answer has to be corrected
	// MaxPromptBytes bounds the result, system and user's text together.
	MaxPromptBytes int `json:"max_prompt_bytes"`

	SHA256 string `json:"-"` // "sha256:…" of the file's bytes
}

// Lines is a text, written as a string or as an array of lines.
type Lines string

// UnmarshalJSON reads both forms.
func (l *Lines) UnmarshalJSON(data []byte) error {
	var lines []string
	if json.Unmarshal(data, &lines) == nil {
		*l = Lines(strings.Join(lines, "\n"))
		return nil
	}
	return json.Unmarshal(data, (*string)(l))
}

// The marks that are no ports.
const (
	MarkSchema = "output_schema"
	MarkPacket = "packet"
)

var (
	mark        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{([^{}]*)\}\}`) })
	idPattern   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,55}_v[1-9][0-9]{0,5}$`) })
	portPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })
)

// Marks lists the marks of a text in their order, each once.
func (l Lines) Marks() []string {
	var names []string
	for _, m := range mark().FindAllStringSubmatch(string(l), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// Fill puts a value in the place of each mark.
func (l Lines) Fill(value func(name string) string) string {
	return mark().ReplaceAllStringFunc(string(l), func(m string) string { return value(m[2 : len(m)-2]) })
}

// maxTemplate bounds a template's file and the prompts that may come of it, in bytes.
const (
	maxTemplate = 64 << 10
	maxPrompt   = 1 << 20
)

// Parse reads a template strictly. Everything that is wrong with it is told at once.
func Parse(data []byte) (Template, error) {
	if len(data) > maxTemplate {
		return Template{}, fmt.Errorf("invalid prompt template: it has more than %d bytes", maxTemplate)
	}
	var t Template
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return Template{}, fmt.Errorf("invalid prompt template: %w", err)
	}
	if d.More() {
		return Template{}, fmt.Errorf("invalid prompt template: something follows it")
	}
	if problems := t.check(); len(problems) > 0 {
		return Template{}, fmt.Errorf("invalid prompt template: %s", strings.Join(problems, "; "))
	}
	sum := sha256.Sum256(data)
	t.SHA256 = "sha256:" + hex.EncodeToString(sum[:])
	return t, nil
}

var ops = []string{"LLM_EXTRACT", "LLM_CLASSIFY", "LLM_CHOOSE", "LLM_WRITE"}

func (t Template) check() (problems []string) {
	fail := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !idPattern().MatchString(t.ID) {
		fail("id %q is none of a template: lower-case words and a version, such as choose_contact_v1", t.ID)
	}
	if !slices.Contains(ops, t.Op) {
		fail("op is one of %s", strings.Join(ops, ", "))
	}
	if t.Version == "" {
		fail("version is missing")
	}
	if t.MaxPromptBytes < 1 || t.MaxPromptBytes > maxPrompt {
		fail("max_prompt_bytes is between 1 and %d", maxPrompt)
	}
	for _, name := range slices.Sorted(maps.Keys(t.InputPorts)) {
		switch {
		case !portPattern().MatchString(name) || name == MarkSchema || name == MarkPacket:
			fail("%q is no name of a port", name)
		case !slices.Contains(t.User.Marks(), name):
			fail("port %s has no {{%s}} in user", name, name)
		}
	}
	ports := slices.Sorted(maps.Keys(t.InputPorts))
	for _, text := range []struct {
		name    string
		text    Lines
		allowed []string
	}{
		{"system", t.System, []string{MarkSchema}},
		{"user", t.User, append([]string{MarkSchema}, ports...)},
		{"repair", t.Repair, append([]string{MarkSchema, MarkPacket}, ports...)},
	} {
		if text.text == "" {
			fail("%s is missing", text.name)
		}
		for _, mark := range text.text.Marks() {
			if !slices.Contains(text.allowed, mark) {
				fail("{{%s}} has no meaning in %s", mark, text.name)
			}
		}
	}
	if !slices.Contains(t.Repair.Marks(), MarkPacket) {
		fail("repair has no {{%s}}", MarkPacket)
	}
	return problems
}

// Builtin returns the template of this id that comes with lattice.
func Builtin(id string) (Template, bool) {
	if !idPattern().MatchString(id) {
		return Template{}, false
	}
	data, err := files.ReadFile(id + ".json")
	if err != nil {
		return Template{}, false
	}
	t, err := Parse(data)
	return t, err == nil && t.ID == id
}

// IDs lists the templates that come with lattice, sorted.
func IDs() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // not possible: the files are embedded
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return ids
}
