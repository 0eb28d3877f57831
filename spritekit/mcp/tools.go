package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/manifests"
)

// tool is a manifest as a client sees it.
type tool struct {
	tool  *sdk.Tool
	input *jsonschema.Resolved // of a manifest that brings a schema; nil when the list of inputs says it all
}

// alwaysLoad asks Claude Code to show a tool from the start; others are found by a search of names and descriptions.
const alwaysLoad = "anthropic/alwaysLoad"

// isCore reports whether an agent needs the tool in every turn. A client that hides tools until they are searched must not hide
// these.
func isCore(name string) bool {
	switch name {
	case "fs.read", "fs.write", "fs.edit", "fs.search", "fs.glob", "git.status", "git.commit", "test.run", "ask.user":
		return true
	}
	return false
}

// isStep reports whether a skill is a step of a flow, such as one that decides about agents. An agent is offered it only if it is
// named.
func isStep(name string) bool {
	switch name {
	case "loop.begin", "loop.decide", "loop.read", "test.confirm", "github.open_issues", "web.check", "web.fetch":
		return true
	}
	return false
}

// toolName is the name of a skill's tool. Several clients and model services refuse names with a dot.
func toolName(skill string) string { return strings.ReplaceAll(skill, ".", "_") }

// newTool makes the tool of a manifest. It has no output schema: models do not need one to read a result, and the
// schemas of all skills are as long as everything else about them.
func newTool(m manifests.Skill, always bool) (tool, error) {
	t := tool{tool: &sdk.Tool{Name: toolName(m.Name), Description: m.Description, Annotations: newAnnotations(m)}}
	t.tool.Description = cmp.Or(t.tool.Description, "The skill "+m.Name+".")
	if always || isCore(m.Name) {
		t.tool.Meta = sdk.Meta{alwaysLoad: true}
	}
	in := inputSchema(m)
	if m.InputSchema != nil {
		var err error
		var more schema
		if more, t.input, err = parseSchema(m.InputSchema); err != nil {
			return tool{}, fmt.Errorf("its input_schema: %w", err)
		}
		in = refineSchema(in, more)
	}
	t.tool.InputSchema = in
	return t, nil
}

func titleOf(name string) string { return strings.NewReplacer(".", " ", "_", " ").Replace(name) }

// newAnnotations derives all four hints; without them a client assumes the worst.
func newAnnotations(m manifests.Skill) *sdk.ToolAnnotations {
	class := m.SideEffect
	reads := class == manifests.ClassRead && !slices.ContainsFunc(m.AllPermissions(), func(p string) bool { return p != "fs:read" && p != "git:read" })
	destroys := m.Destroys()
	open := slices.ContainsFunc(m.AllPermissions(), reachesOut)
	return &sdk.ToolAnnotations{
		Title: titleOf(m.Name), ReadOnlyHint: reads, DestructiveHint: &destroys,
		IdempotentHint: class == manifests.ClassRead || class == manifests.ClassIdempotent, OpenWorldHint: &open,
	}
}

// reachesOut reports whether a permission lets a skill act beyond the sprite's files. One that we do not know may.
func reachesOut(permission string) bool {
	switch permission {
	case "fs:read", "fs:write", "git:read", "git:write", "test:run":
		return false
	}
	return true
}

// schema is a JSON Schema in the making; encoding/json sorts its members.
type schema = map[string]any

// parseSchema reads the schema that a manifest brings. A tool's input and a skill's data are always objects.
func parseSchema(raw json.RawMessage) (schema, *jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, nil, err
	}
	var object schema
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, nil, err
	}
	switch object["type"] {
	case nil:
		object["type"] = "object"
	case "object":
	default:
		return nil, nil, fmt.Errorf("its type is not object")
	}
	return object, resolved, nil
}

// inputSchema returns the inputs of a manifest as a JSON Schema.
func inputSchema(m manifests.Skill) schema {
	if m.Inputs == nil {
		return schema{"type": "object"}
	}
	properties, required := schema{}, []string{}
	for _, f := range m.Inputs {
		property := schemaOf(f.Type)
		if f.Description != "" {
			property["description"] = f.Description
		}
		if f.Default != nil {
			property["default"] = f.Default
		}
		if v := m.Variants; v != nil && v.Input == f.Name {
			property["enum"] = slices.Sorted(maps.Keys(v.Cases))
		}
		if f.Required {
			required = append(required, f.Name)
		}
		properties[f.Name] = property
	}
	object := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

// refineSchema adds the schema of a manifest to the one of its list of inputs.
func refineSchema(listed, more schema) schema {
	properties, _ := listed["properties"].(schema)
	added, _ := more["properties"].(schema)
	maps.Copy(listed, more)
	if properties == nil {
		return listed
	}
	for name, v := range added {
		property, ok := properties[name].(schema)
		if detail, is := v.(schema); ok && is {
			maps.Copy(property, detail)
		} else {
			properties[name] = v
		}
	}
	listed["properties"] = properties
	return listed
}

// schemaOf translates the type vocabulary of manifests.
func schemaOf(t string) schema {
	switch t {
	case "", manifests.TypeAny:
		return schema{}
	case "map":
		return schema{"type": "object"}
	}
	if element, ok := strings.CutPrefix(t, "array<"); ok {
		return schema{"type": "array", "items": schemaOf(strings.TrimSuffix(element, ">"))}
	}
	return schema{"type": t}
}
