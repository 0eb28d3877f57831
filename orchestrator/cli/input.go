package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/exact"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// maxInput bounds a document of inputs, in bytes: more than a leader takes at once reaches no run.
const maxInput = 8 << 20

// ReadNamed reads a file that a person named, or standard input for "-": all of it, or one byte more than limit, so that
// the caller can refuse a longer one.
//
// A read from a terminal or a FIFO cannot be called off. While one goes on, nothing has begun that would have to be put
// in order, so the end of ctx ends the process there and then.
func (c *Console) ReadNamed(ctx context.Context, path string, limit int64) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { c.Exit(protocol.ExitCancelled) })()
	in := c.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, limit+1))
}

// ReadInputFile is readNamed for a document of inputs.
func (c *Console) ReadInputFile(ctx context.Context, path string) ([]byte, error) {
	data, err := c.ReadNamed(ctx, path, maxInput)
	if err != nil {
		return nil, fault.BadInput("input_unreadable", "read input: %v", err).WithHint("name a file, or - for standard input")
	}
	if len(data) > maxInput {
		return nil, fault.Limit("input_too_large", "read input: %s has more than %d bytes", path, maxInput).WithHint("put large data into a file of the repository, and pass its path as the input")
	}
	return data, nil
}

// OnlyOnce refuses JSON in which an object has the same member twice: it does not say which of the two counts.
func OnlyOnce(what string, data []byte) error {
	twice := exact.Duplicates(data)
	if len(twice) == 0 {
		return nil
	}
	return fault.BadInput("key_duplicate", "%s has duplicate members: %s", what, strings.Join(twice, ", ")).WithHint("keep one of the two")
}

// ParsePair reads k=v (a string) or k:=json.
func ParsePair(pair string) (string, json.RawMessage, error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" || name == ":" {
		return "", nil, fault.BadInput("bad_input", "%q is neither k=v nor k:=json", pair)
	}
	if !utf8.ValidString(pair) {
		return "", nil, fault.BadInput("bad_input", "%q is not UTF-8", pair)
	}
	if typed, ok := strings.CutSuffix(name, ":"); ok {
		if !json.Valid([]byte(value)) {
			return "", nil, fault.BadInput("bad_input", "the value of %s is not JSON: %s", typed, value).WithHint(`quote it for the shell, for example '%s:=["a","b"]'`, typed)
		}
		if err := OnlyOnce("the value of "+typed, []byte(value)); err != nil {
			return "", nil, err
		}
		return typed, json.RawMessage(value), nil
	}
	text, err := json.Marshal(value)
	return name, text, err
}
