package ladder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/memo"
)

// CheckSchema returns an error if a JSON Schema is invalid or refers to another document.
func CheckSchema(schema json.RawMessage) error {
	_, err := compileSchema(schema)
	return err
}

// nowhere is a loader that fails: the meaning of a schema must not depend on files or the network.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema cannot refer to another document, such as %s", url)
}

// compiled keeps compiled schemas: a run checks its input, answers and items against the same few.
var compiled memo.Memo[*jsonschema.Schema]

func compileSchema(schema json.RawMessage) (*jsonschema.Schema, error) {
	return compiled.Do(func() (*jsonschema.Schema, error) { return compileNew(schema) }, schema)
}

func compileNew(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := expr.Decode(schema)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	if at, why := findExtreme(doc); why != "" {
		return nil, fmt.Errorf("read the schema: the number at %q is out of range", at)
	}
	const url = "lattice:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat() // validate formats such as dates, too
	c.UseLoader(nowhere{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %s", strings.ReplaceAll(err.Error(), url, "the schema"))
	}
	return s, nil
}

// Fit validates v, decoded JSON, against a schema. The error is non-nil if the schema is invalid.
func Fit(schema json.RawMessage, v any) ([]Problem, error) { return validateValue(schema, v) }

// validateValue validates v against a schema and returns the problems in the order of their paths.
func validateValue(schema json.RawMessage, v any) ([]Problem, error) {
	compiled, err := compileSchema(schema)
	if err != nil {
		return nil, err
	}
	if at, why := findExtreme(v); why != "" {
		return []Problem{newProblem(0, at, "number", "the number is out of range: %s", why)}, nil
	}
	if isCostly(compiled, v) {
		return []Problem{newProblem(0, "", "schema", "the schema refers to itself and to others so often that the value cannot be checked in time")}, nil
	}
	err = compiled.Validate(v)
	if err == nil {
		return nil, nil
	}
	invalid, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, err
	}
	var problems []Problem
	visitLeaves(invalid, func(e *jsonschema.ValidationError) {
		place := ""
		for _, name := range e.InstanceLocation {
			place = finding.ExtendPointer(place, name)
		}
		code := "false" // the schema false has no keyword
		if keyword := e.ErrorKind.KeywordPath(); len(keyword) > 0 {
			code = keyword[len(keyword)-1]
		}
		if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			slices.Sort(extra.Properties) // they come in the order of a map
		}
		alone := *e
		alone.InstanceLocation = nil // which the output writes out
		text := alone.DetailedOutput().Error.String()
		if _, none := e.ErrorKind.(*kind.FalseSchema); none {
			text = "nothing is allowed here"
		}
		problems = append(problems, newProblem(0, place, code, "%s", text))
	})
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Code, b.Code), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems), nil
}

// maxExponent is above the exponent of every double. The library writes a number out before it compares it: 1e9999999 takes
// seconds, and 1e99999999 a panic. It reads a number in time that grows with the square of its length, for each comparison.
const (
	maxExponent = 400
	maxNumber   = 4000 // bytes
)

// findExtreme returns the path of a number that is out of range, the first in the order of names, and says why; why is "" if there
// is none.
func findExtreme(v any) (path, why string) {
	switch v := v.(type) {
	case json.Number:
		d, ok := expr.ParseDecimal(v)
		switch {
		case !ok || d.Exp.CmpAbs(big.NewInt(maxExponent)) > 0:
			return "", fmt.Sprintf("its exponent is above %d", maxExponent)
		case len(v) > maxNumber:
			return "", fmt.Sprintf("it has more than %d characters", maxNumber)
		}
	case []any:
		for i, item := range v {
			if at, why := findExtreme(item); why != "" {
				return "/" + strconv.Itoa(i) + at, why
			}
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			if at, why := findExtreme(v[name]); why != "" {
				return "/" + finding.EscapePointer(name) + at, why
			}
		}
	}
	return "", ""
}

// visitLeaves calls visit for each error without causes.
func visitLeaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
	}
	for _, cause := range e.Causes {
		visitLeaves(cause, visit)
	}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
