package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxManifest bounds the manifests that ParseSkill accepts, in bytes.
const maxManifest = 256 << 10

// MaxTimeoutS bounds every timeout, in seconds: a year, so that a wrong unit is found.
const MaxTimeoutS = 366 * 24 * 3600

// InvalidError is the error of ParseSkill: all problems of the manifest, in the order of the file's members.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, strings.TrimSpace(p.Pointer+" "+p.Message))
	}
	return "invalid skill manifest: " + strings.Join(lines, "; ")
}

// ParseSkill reads the skill.json of anybody. Members that it does not know are tolerated, so that a newer manifest
// works with an older reader; known members of a wrong type or value, and those given twice, are refused, all at once, as an *InvalidError.
// Member names count exactly as written. An absent side_effect becomes world.
func ParseSkill(data []byte) (Skill, error) {
	var p parser
	s := p.parseSkill(data)
	if len(p.problems) > 0 {
		return Skill{}, &InvalidError{Problems: p.problems}
	}
	return s, nil
}

// parser gathers problems while it reads, so that an author sees all of them at once.
type parser struct {
	problems []Problem
	chooser  string // the input that variants are chosen by, for which they have a default
}

func (p *parser) addProblem(pointer, format string, args ...any) {
	p.problems = append(p.problems, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// parseObject splits raw, which is valid JSON, into the members of an object; encoding/json alone would match member names in
// any case, and take the last of two equal ones.
func (p *parser) parseObject(raw []byte, pointer string) map[string]json.RawMessage {
	m, twice := splitObject(raw)
	if m == nil {
		p.addProblem(pointer, "is not a JSON object")
	}
	for _, name := range twice {
		p.addProblem(pointer+"/"+escapeToken(name), "is given twice")
	}
	return m
}

// decodeMember decodes one member when it is there; null counts as absent.
func (p *parser) decodeMember(m map[string]json.RawMessage, key, pointer, want string, v any) bool {
	raw, ok := m[key]
	if !ok || isNull(raw) {
		return false
	}
	if !decodeValue(raw, v) {
		p.addProblem(pointer+"/"+key, "is not %s", want)
		return false
	}
	return true
}

func (p *parser) parseSkill(data []byte) (s Skill) {
	if len(data) > maxManifest {
		p.addProblem("", "is larger than %d bytes", maxManifest)
		return s
	}
	if !json.Valid(data) {
		p.addProblem("", "is not a JSON object")
		return s
	}
	m := p.parseObject(data, "")
	if m == nil {
		return s
	}
	if p.decodeMember(m, "name", "", "a string", &s.Name); !isSkillName(s.Name) {
		p.addProblem("/name", "%q is not a skill name: lower-case words joined by dots, such as git.clone, and none of spritekit's own", s.Name)
	}
	p.decodeMember(m, "description", "", "a string", &s.Description)
	p.decodeMember(m, "version", "", "a string", &s.Version)
	variants, _ := splitObject(m["variants"])
	p.decodeMember(variants, "input", "/variants", "a string", &p.chooser)
	s.Inputs = p.parseFields(m, "inputs", true)
	s.Outputs = p.parseFields(m, "outputs", false)
	s.InputSchema = p.parseSchema(m, "input_schema")
	s.OutputSchema = p.parseSchema(m, "output_schema")
	s.Permissions = p.parsePermissions(m, "")
	s.OptionalPermissions = p.permissionList(m, "", "optional_permissions")
	p.decodeMember(m, "produces_events", "", "a boolean", &s.ProducesEvents)
	s.SideEffect = p.parseClass(m, "", ClassWorld)
	p.decodeMember(m, "continues", "", "a boolean", &s.Continues)
	p.decodeMember(m, "destructive", "", "a boolean", &s.Destructive)
	if p.decodeMember(m, "timeout_s", "", "a number", &s.TimeoutS) {
		switch {
		case s.TimeoutS <= 0:
			p.addProblem("/timeout_s", "is not positive")
		case s.TimeoutS > MaxTimeoutS:
			p.addProblem("/timeout_s", "is more than %d", MaxTimeoutS)
		}
	}
	if p.decodeMember(m, "exec", "", "an array of strings", &s.Exec) && (len(s.Exec) == 0 || s.Exec[0] == "") {
		p.addProblem("/exec", "names no program")
	}
	if p.decodeMember(m, "examples", "", "an array", &s.Examples) {
		for i, e := range s.Examples {
			p.parseObject(e, "/examples/"+strconv.Itoa(i))
		}
	}
	s.Variants = p.parseVariants(m, s.Inputs)
	return s
}

// parseFields reads inputs or outputs. required is the default for objects that do not state it.
func (p *parser) parseFields(m map[string]json.RawMessage, key string, required bool) []Field {
	var raws []json.RawMessage
	if !p.decodeMember(m, key, "", "an array", &raws) {
		return nil
	}
	fields := make([]Field, 0, len(raws))
	for i, raw := range raws {
		pointer := fmt.Sprintf("/%s/%d", key, i)
		f, ok := p.parseField(raw, pointer, required)
		if !ok {
			continue
		}
		if slices.ContainsFunc(fields, func(g Field) bool { return g.Name == f.Name }) {
			p.addProblem(pointer, "%s is declared twice", f.Name)
		}
		fields = append(fields, f)
	}
	return fields
}

// parseField reads "name" (required, of any type) or {name, type, required, description, default}. An input that has a default
// or chooses the variant may be left out, unless required says otherwise.
func (p *parser) parseField(raw json.RawMessage, pointer string, required bool) (f Field, ok bool) {
	before := len(p.problems)
	if raw[0] == '"' && decodeValue(raw, &f.Name) {
		f.Type, f.Required = TypeAny, true
	} else {
		m := p.parseObject(raw, pointer)
		if m == nil {
			return f, false
		}
		p.decodeMember(m, "name", pointer, "a string", &f.Name)
		if typed := p.decodeMember(m, "type", pointer, "a string", &f.Type); !typed && len(p.problems) == before {
			p.addProblem(pointer+"/type", "is missing; any stands for every type")
		}
		p.decodeMember(m, "description", pointer, "a string", &f.Description)
		if f.Default = m["default"]; isNull(f.Default) {
			f.Default = nil
		}
		f.Required = required && f.Default == nil && f.Name != p.chooser
		p.decodeMember(m, "required", pointer, "a boolean", &f.Required)
	}
	if !isFieldName(f.Name) {
		p.addProblem(pointer, "%q is not a name: letters, digits and underscores", f.Name)
	}
	if !ValidType(f.Type) {
		p.addProblem(pointer+"/type", "%q is none of string, integer, number, boolean, map, array, array<T>, any", f.Type)
	} else if f.Default != nil {
		if problem := findMismatch(f.Default, f.Type, pointer+"/default"); problem != nil {
			p.problems = append(p.problems, *problem)
		}
	}
	return f, len(p.problems) == before
}

// parseSchema keeps a JSON Schema compacted, so that layout does not reach the digest.
func (p *parser) parseSchema(m map[string]json.RawMessage, key string) json.RawMessage {
	raw, ok := m[key]
	if !ok || isNull(raw) {
		return nil
	}
	if p.parseObject(raw, "/"+key) == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		p.addProblem("/"+key, "is not JSON: %v", err)
	}
	return b.Bytes()
}

func (p *parser) parsePermissions(m map[string]json.RawMessage, pointer string) []string {
	if names := p.permissionList(m, pointer, "permissions"); names != nil {
		return names
	}
	return []string{}
}

func (p *parser) permissionList(m map[string]json.RawMessage, pointer, key string) (names []string) {
	p.decodeMember(m, key, pointer, "an array of strings", &names)
	for i, name := range names {
		if !isPermissionName(name) {
			p.addProblem(fmt.Sprintf("%s/%s/%d", pointer, key, i), "%q is not a permission such as fs:read", name)
		}
	}
	return names
}

func (p *parser) parseClass(m map[string]json.RawMessage, pointer string, absent Class) Class {
	class := absent
	if p.decodeMember(m, "side_effect", pointer, "a string", &class) && class.reachRank() == 0 {
		p.addProblem(pointer+"/side_effect", "%q is none of read, idempotent, sprite, world", class)
	}
	return class
}

func (p *parser) parseVariants(m map[string]json.RawMessage, inputs []Field) *Variants {
	raw, ok := m["variants"]
	if !ok || isNull(raw) {
		return nil
	}
	vm := p.parseObject(raw, "/variants")
	if vm == nil {
		return nil
	}
	v := &Variants{Input: p.chooser, Cases: map[string]Variant{}}
	p.decodeMember(vm, "default", "/variants", "a string", &v.Default)
	if !slices.ContainsFunc(inputs, func(f Field) bool { return f.Name == v.Input && f.Type == "string" }) {
		p.addProblem("/variants/input", "%q is no input of type string", v.Input)
	}
	var cases map[string]json.RawMessage
	if raw, ok := vm["cases"]; ok && !isNull(raw) {
		cases = p.parseObject(raw, "/variants/cases")
	}
	names := slices.Sorted(maps.Keys(cases))
	for _, name := range names {
		pointer := "/variants/cases/" + escapeToken(name)
		if cm := p.parseObject(cases[name], pointer); cm != nil {
			v.Cases[name] = Variant{Permissions: p.parsePermissions(cm, pointer), SideEffect: p.parseClass(cm, pointer, ClassWorld)}
		}
	}
	if _, ok := v.Cases[v.Default]; !ok {
		p.addProblem("/variants/default", "%q is none of the cases", v.Default)
	}
	return v
}
