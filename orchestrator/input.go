package main

import (
	"context"
	"io"
	"os"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// maxInput bounds a document of inputs, in bytes: more than a leader takes at once reaches no run.
const maxInput = 8 << 20

// readNamed reads a file that a person named, or standard input for "-": all of it, or one byte more than limit, so that
// what is longer is refused by whoever judges it.
//
// A read from a terminal or a FIFO cannot be called off. While one goes on, nothing has begun that would have to be put
// in order, so the end of ctx ends the process there and then.
func (d *deps) readNamed(ctx context.Context, path string, limit int64) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { d.exit(protocol.ExitCancelled) })()
	in := d.in
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

// readInputFile is readNamed for a document of inputs.
func (d *deps) readInputFile(ctx context.Context, path string) ([]byte, error) {
	data, err := d.readNamed(ctx, path, maxInput)
	if err != nil {
		return nil, fault.BadInput("input_unreadable", "read input: %v", err)
	}
	if len(data) > maxInput {
		return nil, fault.Limit("input_too_large", "read input: %s has more than %d bytes", path, maxInput).WithHint("give large data as a file of the repository, and its path as the input")
	}
	return data, nil
}
