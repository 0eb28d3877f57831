package main

import (
	"maps"
	"reflect"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// schema is a JSON Schema (draft 2020-12); maps are written with sorted keys, so that equal types give equal bytes.
type schema = map[string]any

// generator turns Go types into schemas as encoding/json would write them. Structs become definitions, so that types
// may contain themselves.
type generator struct {
	rules    rules
	comments comments
	defs     schema
	name     func(reflect.Type) string // of a definition; nil for the type's own
	null     bool                      // members that are always written may be null where Go has nil
}

// rules add to the types.
type rules struct {
	types    map[reflect.Type]schema // in place of the result of reflection
	fields   map[string]schema       // the same for one member, "Type.member"
	optional map[string]bool         // members that may be left out, though they are always written
	closed   map[string]bool         // packages whose objects have no other members
	open     map[string]bool         // of these, those whose objects may have meta and x-…
}

func (g *generator) schemaOf(t reflect.Type) any {
	if s, ok := g.rules.types[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.schemaOf(t.Elem())
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema{} // json.RawMessage: any value
		}
		return schema{"type": "array", "items": g.schemaOf(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": g.schemaOf(t.Elem())}
	case reflect.Interface:
		return schema{}
	case reflect.Struct:
		name := t.Name()
		if g.name != nil && name != "" {
			name = g.name(t)
		}
		if name == "" {
			return g.objectSchema(t)
		}
		if _, ok := g.defs[name]; !ok {
			g.defs[name] = nil // known from here on: its members may name it
			g.defs[name] = g.objectSchema(t)
		}
		return schema{"$ref": "#/$defs/" + name}
	}
	panic("genschema knows no schema for " + t.String())
}

func (g *generator) objectSchema(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && field.Anonymous { // its members are ours
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			inner := g.objectSchema(embedded)
			maps.Copy(properties, inner["properties"].(schema))
			if all, _ := inner["required"].([]string); embedded == field.Type { // a nil pointer has no members
				required = append(required, all...)
			}
			continue
		}
		at := t.Name() + "." + name
		property, ok := g.rules.fields[at]
		if !ok {
			property = g.schemaOf(field.Type).(schema)
		}
		if k := field.Type.Kind(); g.null && len(property) > 0 && !strings.HasPrefix(options, "omit") && (k == reflect.Slice || k == reflect.Map || k == reflect.Pointer) {
			property = schema{"anyOf": []any{property, schema{"type": "null"}}}
		}
		if text := g.comments[t.PkgPath()+"."+t.Name()+"."+field.Name]; text != "" {
			property = maps.Clone(property)
			property["description"] = text
		}
		properties[name] = property
		if !strings.HasPrefix(options, "omit") && !g.rules.optional[at] {
			required = append(required, name)
		}
	}
	s := schema{"type": "object", "properties": properties}
	if text := g.comments[t.PkgPath()+"."+t.Name()]; text != "" {
		s["description"] = text
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if g.rules.closed[t.PkgPath()] {
		s["additionalProperties"] = false
	}
	if g.rules.open[t.PkgPath()] {
		s["patternProperties"] = schema{"^(meta$|x-)": schema{}}
	}
	return s
}

// makeDocument returns the whole schema of one type. more, which may add definitions, returns rules about several members.
func (g generator) makeDocument(name, title string, t reflect.Type, more func(*generator) schema) schema {
	g.defs = schema{}
	s := schema{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": manifests.SchemaURL(name), "title": title}
	maps.Copy(s, g.schemaOf(t).(schema))
	if more != nil {
		maps.Copy(s, more(&g))
	}
	if len(g.defs) > 0 {
		s["$defs"] = g.defs
	}
	return s
}
