package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/toolchain"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// addToolFlag adds --tool to a command.
func addToolFlag(cmd *cobra.Command, tools *[]string) {
	cmd.Flags().StringArrayVar(tools, "tool", nil, "show sprites the program or folder `PATH` of this machine, read-only; repeatable (lattice doctor proposes some)")
}

// machine is what decides which paths of this machine sprites may see.
func (d *deps) machine() toolchain.Machine {
	return toolchain.Machine{Home: d.getenv("HOME"), State: d.home, Path: d.getenv("PATH"), Taken: sandbox.OwnFolders()}
}

// sharedCaches is where caches lie that all sprites of this user read: lattice in the XDG cache directory. It is "" when
// there is no such directory.
func (d *deps) sharedCaches() string {
	dir := d.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home := d.getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "lattice")
}

// toolExits are the exit codes of refused paths; others end with 2.
var toolExits = map[string]int{toolchain.CodeMissing: protocol.ExitNotFound, toolchain.CodeUnsafe: protocol.ExitUnsafe}

// checkTool judges one path. The error is a *fault.Error.
func (d *deps) checkTool(path string) (string, error) {
	clean, err := d.machine().Check(path)
	var refused *lattice.Refusal
	if errors.As(err, &refused) {
		exit, ok := toolExits[refused.Fault.Code]
		if !ok {
			exit = protocol.ExitBadInput
		}
		return "", &fault.Error{Fault: refused.Fault, Exit: exit}
	}
	return clean, err
}

// spriteTools judges the --tool flags of a command that makes a sprite wherever sprites are.
func (d *deps) spriteTools(paths []string) ([]string, error) {
	if len(paths) > 0 && d.remoteSprites() != nil {
		return nil, fault.Unsupported("tools_are_local", "remote sprites cannot see this machine's programs").WithHint("leave --tool out, and install what is needed in the sprite")
	}
	return d.checkTools(paths)
}

// checkTools judges the paths of --tool flags, and warns of programs in them that lead to what sprites do not see.
func (d *deps) checkTools(paths []string) ([]string, error) {
	var checked []string
	for _, path := range paths {
		clean, err := d.checkTool(path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(checked, clean) {
			checked = append(checked, clean)
		}
	}
	links := toolchain.Dangling(checked)
	for _, link := range links[:min(len(links), 3)] {
		fmt.Fprintf(d.err, "lattice: warning: sprites will not see where %s leads; show that, too\n", link)
	}
	if more := len(links) - 3; more > 0 {
		fmt.Fprintf(d.err, "lattice: warning: the same holds for %d more links\n", more)
	}
	return checked, nil
}

// ownTools are what a run's sprite keeps seeing, whichever process leads: what every sprite sees now, and what was named.
func (d *deps) ownTools(named []string) []string {
	all := d.toolsOf(d.paths(d.settings.Tools), func(error) {}) // the leader warns
	for _, path := range named {
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// hostTools are the paths that every sprite of the embedded host sees: the toolchains that are shown by default, and
// those that a person has set. One that is refused is left out with a warning: it was set for all runs, and most can do
// without it.
func (d *deps) hostTools(set []string) []string {
	return d.toolsOf(set, func(err error) { fmt.Fprintf(d.err, "lattice: warning: tool of the settings left out: %v\n", err) })
}

func (d *deps) toolsOf(set []string, leftOut func(error)) []string {
	tools := slices.Clone(d.machine().Default())
	for _, path := range set {
		clean, err := d.checkTool(path)
		if err != nil {
			leftOut(err)
			continue
		}
		if !slices.Contains(tools, clean) {
			tools = append(tools, clean)
		}
	}
	return tools
}
