package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/exact"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const (
	// MaxInput is the maximum size of an input in bytes.
	MaxInput = 16 << 20
	// maxDepth limits the nesting of an input.
	maxDepth = 200
)

// readInput reads stdin: one JSON object, or nothing, which counts as {}. size is the length that the caller announced, or "": if the
// connection breaks before the input has arrived, its end looks like that of an empty input, with which the skill must not begin.
func readInput(stdin io.Reader, size string) (map[string]json.RawMessage, error) {
	raw, err := io.ReadAll(io.LimitReader(stdin, MaxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	if len(raw) > MaxInput {
		return nil, fault.Limit("input_too_large", "the input on stdin has more than %d bytes", MaxInput).
			WithHint("put large data into a file of the workspace and name the file")
	}
	if size != "" && size != strconv.Itoa(len(raw)) {
		return nil, fault.Network("input_cut", "stdin ended after %d bytes of the input, and the caller announced %s", len(raw), size).
			WithHint("make the call again")
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return map[string]json.RawMessage{}, nil
	}
	if raw[0] != '{' {
		return nil, malformed(errors.New("it is not a JSON object"))
	}
	if !utf8.Valid(raw) {
		return nil, malformed(errors.New("it is not UTF-8"))
	}
	if problem, err := checkJSON(raw); err != nil {
		return nil, malformed(err)
	} else if problem != nil {
		return nil, badInput([]protocol.Problem{*problem}).WithHint("readers would disagree about the value; give it once")
	}
	input := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &input); err != nil {
		return nil, malformed(err)
	}
	return input, nil
}

func malformed(err error) *fault.Error {
	return BadInput("", "the input on stdin is not valid: %v", err).WithHint(`give one JSON object, such as {"path":"README.md"}`)
}

// checkJSON refuses JSON that encoding/json accepts: duplicate keys, about which readers disagree, deep nesting, and text
// after the value.
func checkJSON(raw []byte) (*protocol.Problem, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	problem, err := checkValue(dec, 0)
	if problem != nil || err != nil {
		return problem, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return nil, nil
}

func checkValue(dec *json.Decoder, depth int) (*protocol.Problem, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, unexpectedEnd(err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil, nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		member := strconv.Itoa(i)
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return nil, unexpectedEnd(err)
			}
			member = key.(string) // Token guarantees it
			if seen[member] {
				return &protocol.Problem{Pointer: "/" + escapePointer.Replace(member), Message: "is given twice"}, nil
			}
			seen[member] = true
		}
		problem, err := checkValue(dec, depth+1)
		if problem != nil { // its pointer is one from the member
			problem.Pointer = "/" + escapePointer.Replace(member) + problem.Pointer
		}
		if problem != nil || err != nil {
			return problem, err
		}
	}
	_, err = dec.Token() // the closing delimiter
	return nil, unexpectedEnd(err)
}

func unexpectedEnd(err error) error {
	if err == io.EOF {
		return errors.New("it ends too early")
	}
	return err
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// completeInput adds the members that stdin lacks, first from LATTICE_INPUT_<NAME>, then from the defaults of the manifest,
// and checks the input against the manifest.
func completeInput(m manifests.Skill, input map[string]json.RawMessage, env map[string]string) error {
	for _, f := range m.Inputs {
		if _, ok := input[f.Name]; ok {
			continue
		}
		if value, ok := env[strings.ToUpper(f.Name)]; ok {
			input[f.Name] = fromEnv(f, value)
		}
	}
	if problems := m.CheckInput(input); len(problems) > 0 {
		wire := make([]protocol.Problem, len(problems))
		for i, p := range problems {
			wire[i] = protocol.Problem(p)
		}
		return badInput(wire)
	}
	delete(input, "$schema")
	for _, f := range m.Inputs {
		raw, ok := input[f.Name]
		if ok && string(raw) == "null" {
			delete(input, f.Name) // null in an optional member counts as absent
			ok = false
		}
		if !ok && f.Default != nil {
			input[f.Name] = f.Default
		}
	}
	return nil
}

// encodeInput encodes an input as one object in canonical form, of which digests are made.
func encodeInput(input map[string]json.RawMessage) (json.RawMessage, error) {
	object := []byte{'{'}
	for name, value := range input {
		if len(object) > 1 {
			object = append(object, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		object = append(append(append(object, quoted...), ':'), value...)
	}
	return protocol.Canonical(append(object, '}'))
}

// fromEnv reads the value of a variable as JSON if it is valid JSON and the input is not a string, else as a string.
func fromEnv(f manifests.Field, value string) json.RawMessage {
	raw := json.RawMessage(value)
	if json.Valid(raw) && (f.Type != "string" || strings.HasPrefix(strings.TrimSpace(value), `"`)) {
		return raw
	}
	quoted, _ := json.Marshal(value) // a string always marshals
	return quoted
}

// bind decodes raw strictly into the struct that v points to.
func bind(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		if at := exact.Unknown(raw, reflect.TypeOf(v).Elem()); at != "" {
			return BadInput(at, "is not known")
		}
		return nil
	case errors.As(err, &mismatch):
		pointer := ""
		if mismatch.Field != "" {
			pointer = "/" + strings.ReplaceAll(mismatch.Field, ".", "/")
		}
		return BadInput(pointer, "is a %s, which does not fit %s", mismatch.Value, mismatch.Type)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name, _ := strconv.Unquote(strings.TrimPrefix(err.Error(), "json: unknown field "))
		return BadInput("/"+escapePointer.Replace(name), "is not known")
	}
	return BadInput("", "%v", err)
}
