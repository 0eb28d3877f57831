package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// serveMCP becomes the second file, which holds the server of MCP.
func (a app) serveMCP(args []string) error {
	dir, err := dropInFolder()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, protocol.Extra)
	err = syscall.Exec(file, append([]string{protocol.Extra, "mcp"}, args...), a.environ)
	if errors.Is(err, fs.ErrNotExist) {
		return extra.Missing("spritekit mcp")
	}
	return fmt.Errorf("run %s: %w", file, err)
}
