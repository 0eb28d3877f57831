package forgetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed github.json
var githubJSON []byte

// description is GitHub's published description of its REST interface, as far as lattice uses it: scripts/forgeapi writes it.
// It judges both sides: a request that does not match is refused, and an answer that does not match is a fault of the server.
type description struct {
	whole    map[string]any
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema // by place
}

var github = sync.OnceValue(func() *description {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(githubJSON))
	if err != nil {
		panic(err) // the file is made by a program
	}
	d := &description{whole: doc.(map[string]any), compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	if err := d.compiler.AddResource("github.json", doc); err != nil {
		panic(err)
	}
	return d
})

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^}]*\}`) })

// findOperation returns the name of the operation of a route.
func (d *description) findOperation(method, path string) string {
	plain := func(s string) string { return placeholder().ReplaceAllString(s, "{}") }
	want := method + " " + plain(strings.Replace(path, "/issue-comments", "/issues/comments", 1))
	for name := range d.whole["operations"].(map[string]any) {
		if plain(name) == want {
			return name
		}
	}
	panic("forgetest: GitHub's description has no " + want)
}

// partOf returns the schema at a place within an operation, nil if there is none.
func (d *description) partOf(operation string, names ...string) any {
	v := d.whole["operations"].(map[string]any)[operation]
	for _, name := range names {
		v = v.(map[string]any)[name]
	}
	return v
}

// checkValue returns the reason why a value does not match the schema at a place within an operation.
func (d *description) checkValue(v any, operation string, names ...string) error {
	place := "github.json#/operations"
	for _, name := range append([]string{operation}, names...) {
		place += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", " ", "%20").Replace(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	schema := d.compiled[place]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile(place); err != nil {
			panic(fmt.Sprintf("forgetest: %v", err))
		}
		d.compiled[place] = schema
	}
	return schema.Validate(v)
}

// checkRequest returns the reason why the parameters or the body of a request do not match. GitHub ignores parameters that it does not
// know.
func (d *description) checkRequest(operation string, r *http.Request, body []byte) error {
	known := d.partOf(operation, "query").(map[string]any)
	for name, values := range r.URL.Query() {
		schema, ok := known[name]
		if !ok {
			continue
		}
		var v any = values[0]
		if kind, _ := schema.(map[string]any)["type"].(string); kind == "integer" {
			v = json.Number(values[0])
		}
		if err := d.checkValue(v, operation, "query", name); err != nil {
			return fmt.Errorf("the parameter %s: %w", name, err)
		}
	}
	if d.partOf(operation, "body") == nil || len(body) == 0 {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return d.checkValue(v, operation, "body")
}

// checkRoute checks the requests to a route and the answers to them. Members of an answer that lattice does not use, and that the
// description requires, are filled in.
func (d *description) checkRoute(operation string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := readBody(r)
		if err := d.checkRequest(operation, r, body); err != nil {
			writeProblem(w, http.StatusUnprocessableEntity, "Invalid request.\n\n"+err.Error())
			return
		}
		rec := httptest.NewRecorder()
		next(rec, r)
		status := strconv.Itoa(rec.Code)
		schema := d.partOf(operation, "answers", status)
		answer := rec.Body.Bytes()
		switch {
		case schema == nil && rec.Code < 300:
			panic(fmt.Sprintf("forgetest: %s is not answered with %s", operation, status))
		case schema != nil && schema != true:
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
			if err == nil {
				v = d.fillMembers(schema, v)
				err = d.checkValue(v, operation, "answers", status)
			}
			if err != nil {
				panic(fmt.Sprintf("forgetest: the answer to %s: %v\n%s", operation, err, answer))
			}
			if answer, err = json.Marshal(v); err != nil {
				panic(err)
			}
		}
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(answer)
	}
}

// fillMembers returns v with the members that its schema requires.
func (d *description) fillMembers(schema, v any) any {
	s := d.followRef(schema)
	if s == nil {
		return v
	}
	for _, part := range listOf(s["allOf"]) {
		v = d.fillMembers(part, v)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if i := slices.IndexFunc(listOf(s[name]), func(part any) bool { return d.fitsType(part, v) }); i >= 0 {
			v = d.fillMembers(listOf(s[name])[i], v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for _, name := range listOf(s["required"]) {
			if _, ok := v[name.(string)]; !ok {
				v[name.(string)] = d.makeExample(properties[name.(string)])
			}
		}
		for name, value := range v {
			v[name] = d.fillMembers(properties[name], value)
		}
	case []any:
		for i := range v {
			v[i] = d.fillMembers(s["items"], v[i])
		}
	}
	return v
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}

func (d *description) followRef(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return d.followRef(d.whole["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")])
	}
	return s
}

// typesOf returns the types that a schema admits.
func typesOf(s map[string]any) []any {
	if kind, ok := s["type"].(string); ok {
		return []any{kind}
	}
	return listOf(s["type"])
}

// fitsType reports whether a value has the type that a schema names, or the schema names none.
func (d *description) fitsType(schema, v any) bool {
	kind := map[bool]string{true: "null"}[v == nil]
	switch v.(type) {
	case map[string]any:
		kind = "object"
	case []any:
		kind = "array"
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case json.Number:
		kind = "integer"
	}
	all := typesOf(d.followRef(schema))
	return len(all) == 0 || slices.Contains(all, any(kind))
}

// makeExample returns a small value that a schema admits.
func (d *description) makeExample(schema any) any {
	s := d.followRef(schema)
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if parts := listOf(s[name]); len(parts) > 0 {
			return d.fillMembers(s, d.makeExample(parts[0]))
		}
	}
	if values := listOf(s["enum"]); len(values) > 0 {
		return values[0]
	}
	all := typesOf(s)
	switch {
	case len(all) == 0 && s["properties"] == nil, slices.Contains(all, any("null")):
		return nil
	case slices.Contains(all, any("string")):
		return "text"
	case slices.Contains(all, any("integer")), slices.Contains(all, any("number")):
		return json.Number("1")
	case slices.Contains(all, any("boolean")):
		return false
	case slices.Contains(all, any("array")):
		return []any{}
	}
	return d.fillMembers(s, map[string]any{})
}

// readBody reads the body of a request and puts it back.
func readBody(r *http.Request) []byte {
	var b bytes.Buffer
	_, _ = b.ReadFrom(http.MaxBytesReader(nil, r.Body, 1<<20))
	r.Body = http.NoBody
	if b.Len() > 0 {
		r.Body = nopCloser{bytes.NewReader(b.Bytes())}
	}
	return b.Bytes()
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }
