package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"
	"unicode"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// describePath is where the description of the leader's interface lies in the module.
const describePath = "orchestrator/api/openapi.json"

// describeAPI returns the OpenAPI description of the leader's interface, made of its table of routes.
func describeAPI() ([]byte, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	routes := api.Routes(nil)
	said, err := readComments(root, reflect.TypeFor[api.RunView](), reflect.TypeFor[exchange.Problem](), reflect.TypeFor[artifact.Product](), reflect.TypeFor[audit.Entry](), reflect.TypeFor[intent.State](), reflect.TypeFor[lattice.Wait](),
		reflect.TypeFor[proposal.State](), reflect.TypeFor[secret.Lease](), reflect.TypeFor[sprites.Change](), reflect.TypeFor[fault.Error](), reflect.TypeFor[protocol.Artifact]())
	if err != nil {
		return nil, err
	}
	rules := contractRules()
	rules.closed, rules.open = nil, nil
	g := generator{rules: rules, comments: said, defs: schema{}, name: componentOf, null: true}
	paths := schema{}
	for _, r := range routes {
		at, _ := paths[r.Path].(schema)
		if at == nil {
			at = schema{}
			paths[r.Path] = at
		}
		at[strings.ToLower(r.Method)] = g.describeOperation(r)
	}
	g.schemaOf(reflect.TypeFor[exchange.Problem]())
	doc := schema{
		"openapi": "3.1.1",
		"info": schema{"title": "Lattice", "version": fmt.Sprint(api.Version), "license": schema{"name": "see LICENSE"},
			"description": "The interface of a leader. Rights grow from viewer over operator to admin; the owner of the state directory has all of them, over the socket."},
		"servers":    []any{schema{"url": "/"}},
		"paths":      paths,
		"components": schema{"schemas": g.defs, "securitySchemes": schema{"token": schema{"type": "http", "scheme": "bearer"}}},
		"security":   []any{schema{"token": []any{}}},
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode the description: %w", err)
	}
	return bytes.ReplaceAll(text.Bytes(), []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)), nil
}

func (g *generator) describeOperation(r route.Route) schema {
	params := []any{}
	for _, segment := range strings.Split(r.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			params = append(params, schema{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": schema{"type": "string"}})
		}
	}
	for _, p := range r.Params {
		params = append(params, schema{"name": p.Name, "in": "query", "description": p.Summary, "schema": schema{"type": p.Type}})
	}
	if r.Keyed {
		params = append(params, schema{"name": "Idempotency-Key", "in": "header", "description": "makes a request that comes twice count once", "schema": schema{"type": "string"}})
	}
	answer := schema{}
	if r.Out != nil {
		answer["schema"] = g.schemaOf(r.Out)
	}
	o := schema{
		"operationId": operationOf(r), "summary": r.Summary, "x-role": r.Role, "tags": []any{strings.Split(strings.TrimPrefix(r.Path, api.Root+"/"), "/")[0]},
		"responses": schema{
			"200":     schema{"description": describeAnswers(r), "content": schema{r.Media: answer}},
			"default": schema{"description": "No result; the error has a code, a sentence and often the remedy.", "content": schema{"application/problem+json": schema{"schema": schema{"$ref": "#/$defs/Problem"}}}},
		},
	}
	if len(params) > 0 {
		o["parameters"] = params
	}
	if r.In != nil {
		o["requestBody"] = schema{"content": schema{"application/json": schema{"schema": g.schemaOf(r.In)}}}
	}
	return o
}

func describeAnswers(r route.Route) string {
	switch {
	case strings.HasSuffix(r.Media, "ndjson"):
		return "Lines of JSON, each with this schema; a line with a member exit other than 0 ends the stream with that problem."
	case strings.HasSuffix(r.Media, "event-stream"):
		return "Server-sent events; the data of each has this schema."
	}
	return http.StatusText(http.StatusOK)
}

// operationOf names an operation, as in post_runs_id_fork.
func operationOf(r route.Route) string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.Path, api.Root), func(c rune) bool { return !unicode.IsLetter(c) })
	return strings.ToLower(r.Method) + "_" + strings.Join(words, "_")
}

// componentOf names the schema of a type, of which two packages may have one of a name.
func componentOf(t reflect.Type) string {
	name, of, generic := strings.Cut(t.Name(), "[")
	if generic {
		name += path.Ext(strings.TrimSuffix(of, "]"))[1:]
	}
	if pkg := path.Base(t.PkgPath()); pkg != "api" && pkg != "exchange" {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
