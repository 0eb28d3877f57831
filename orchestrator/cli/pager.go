package cli

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Page shows text in the person's pager, or writes it when there is none.
func (c *Console) Page(text string) error {
	pager := "less"
	for _, name := range []string{"LATTICE_PAGER", "PAGER"} {
		if v := c.Getenv(name); v != "" {
			pager = v
			break
		}
	}
	if _, err := exec.LookPath(strings.Fields(pager + " x")[0]); err != nil || pager == "cat" {
		_, err := io.WriteString(c.Out, text)
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", pager)
	cmd.Env = c.Environ
	if c.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "LESS=FRX") // text that fits a screen needs no key
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), c.Out, c.Err
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(c.Err, "%s: %v\n", pager, err) // the person saw as much as they wanted, or sees this
	}
	return nil
}
