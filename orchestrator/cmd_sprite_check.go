package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newSpriteCheckCmd(d *deps) *cobra.Command {
	cmd := d.spriteCmd("check NAME", "Wake a sprite and find out whether commands run in it", "  lattice sprite check box || lattice sprite restart box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		h, err := c.Check(ctx, list[0])
		if err != nil {
			return err
		}
		if d.json {
			err = d.printJSON(h)
		} else {
			_, err = fmt.Fprintln(d.out, strings.TrimSpace(clean(h.Status+" "+h.Reason)))
		}
		if err == nil && h.Status != "healthy" {
			err = &exitError{code: protocol.ExitFailed}
		}
		return err
	})
	cmd.Long = "Wake a sprite and find out whether commands run in it. The exit code is 1 when they do not.\n" + exitCodes
	return cmd
}
