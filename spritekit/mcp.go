package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/skills/git/delegate"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// serveMCP becomes the second file, which holds the server of MCP.
func (a app) serveMCP(args []string) error {
	dir, err := besides()
	if err != nil {
		return err
	}
	extra := filepath.Join(dir, protocol.Extra)
	err = syscall.Exec(extra, append([]string{protocol.Extra, "mcp"}, args...), a.environ)
	if errors.Is(err, fs.ErrNotExist) {
		return delegate.Missing("spritekit mcp")
	}
	return fmt.Errorf("run %s: %w", extra, err)
}
