// Command forgeapi writes the part of GitHub's published description of its REST interface that the code host for tests is checked
// against: the operations that lattice uses, as JSON Schema, without the texts for people.
//
//	npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz package/generated/api.github.com.json
//	go run ./scripts/forgeapi package/generated/api.github.com.json >orchestrator/forge/forgetest/github.json
//
// The description is Copyright GitHub and the Octokit contributors, under the MIT license.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// operations are those that lattice uses.
var operations = []string{
	"GET /user", "GET /user/{account_id}", "GET /users/{username}", "GET /app", "POST /app/installations/{installation_id}/access_tokens",
	"GET /repos/{owner}/{repo}", "GET /repos/{owner}/{repo}/collaborators/{username}/permission",
	"GET /repos/{owner}/{repo}/issues", "POST /repos/{owner}/{repo}/issues", "GET /repos/{owner}/{repo}/issues/{issue_number}",
	"GET /repos/{owner}/{repo}/issues/comments", "GET /repos/{owner}/{repo}/issues/comments/{comment_id}", "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
	"POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions",
	"GET /repos/{owner}/{repo}/issues/{issue_number}/comments", "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
	"GET /repos/{owner}/{repo}/issues/{issue_number}/labels", "POST /repos/{owner}/{repo}/issues/{issue_number}/labels",
	"DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}",
	"GET /repos/{owner}/{repo}/pulls", "POST /repos/{owner}/{repo}/pulls", "GET /repos/{owner}/{repo}/pulls/{pull_number}",
	"GET /repos/{owner}/{repo}/pulls/{pull_number}/files",
	"GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews", "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments", "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments",
	"POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies",
	"GET /repos/{owner}/{repo}/commits/{ref}/status", "POST /repos/{owner}/{repo}/statuses/{sha}",
	"GET /repos/{owner}/{repo}/commits/{ref}/check-runs", "POST /repos/{owner}/{repo}/check-runs",
	"GET /repos/{owner}/{repo}/hooks", "POST /repos/{owner}/{repo}/hooks", "PATCH /repos/{owner}/{repo}/hooks/{hook_id}", "GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries",
	"POST /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts",
}

type object = map[string]any

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: forgeapi FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "forgeapi:", err)
		os.Exit(1)
	}
}

// write reads a description and writes the part.
func write(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p := pruner{defs: object{}}
	if err := json.Unmarshal(raw, &p.whole); err != nil {
		return err
	}
	out := object{"$comment": "Part of GitHub's REST description (npm @octokit/openapi, MIT license), written by scripts/forgeapi.", "$defs": p.defs}
	all := object{}
	for _, name := range operations {
		method, path, _ := strings.Cut(name, " ")
		o, ok := digValue(p.whole, "paths", path, strings.ToLower(method)).(object)
		if !ok {
			return fmt.Errorf("the description has no %s", name)
		}
		all[name] = p.convertOperation(o)
	}
	out["operations"] = all
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// pruner copies the schemas that the operations reach.
type pruner struct {
	whole, defs object
}

func digValue(v any, names ...string) any {
	for _, name := range names {
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

// followRef follows a reference within the description.
func (p pruner) followRef(v any) object {
	o, _ := v.(object)
	if ref, ok := o["$ref"].(string); ok {
		return p.followRef(digValue(p.whole, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return o
}

func jsonSchema(v any) any { return digValue(v, "content", "application/json", "schema") }

// convertOperation returns the parameters, the body and the answers of an operation.
func (p pruner) convertOperation(o object) object {
	query, answers := object{}, object{}
	parameters, _ := o["parameters"].([]any)
	for _, v := range parameters {
		if parameter := p.followRef(v); parameter["in"] == "query" {
			query[parameter["name"].(string)] = p.convertSchema(parameter["schema"])
		}
	}
	for status, v := range o["responses"].(object) {
		if schema := jsonSchema(p.followRef(v)); schema != nil {
			answers[status] = p.convertSchema(schema)
		} else {
			answers[status] = true
		}
	}
	out := object{"query": query, "answers": answers}
	if body := p.followRef(o["requestBody"]); body != nil {
		out["body"] = p.convertSchema(jsonSchema(body))
	}
	return out
}

// kept are the keywords that are copied as they are.
var kept = []string{"type", "enum", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}

// convertSchema returns a schema of OpenAPI 3.0 as JSON Schema.
func (p pruner) convertSchema(v any) any {
	o, ok := v.(object)
	if !ok {
		return v
	}
	if ref, ok := o["$ref"].(string); ok {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		if _, known := p.defs[name]; !known {
			p.defs[name] = true // while it is made
			p.defs[name] = p.convertSchema(digValue(p.whole, "components", "schemas", name))
		}
		return object{"$ref": "#/$defs/" + name}
	}
	out := object{}
	for _, name := range kept {
		if value, ok := o[name]; ok {
			out[name] = value
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := o[name].([]any); ok {
			parts := []any{}
			for _, part := range list {
				parts = append(parts, p.convertSchema(part))
			}
			out[name] = parts
		}
	}
	for _, name := range []string{"items", "additionalProperties", "not"} {
		if value, ok := o[name]; ok {
			out[name] = p.convertSchema(value)
		}
	}
	if properties, ok := o["properties"].(object); ok {
		members := object{}
		for name, value := range properties {
			members[name] = p.convertSchema(value)
		}
		out["properties"] = members
	}
	if o["nullable"] == true {
		if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
			out["enum"] = append(slices.Clone(values), nil)
		}
		if kind, ok := out["type"].(string); ok {
			out["type"] = []any{kind, "null"}
			return out
		}
		return object{"anyOf": []any{object{"type": "null"}, out}}
	}
	return out
}
