package equip

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/toolchain"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// AddToolFlag adds --tool to a command.
func AddToolFlag(cmd *cobra.Command, tools *[]string) {
	cmd.Flags().StringArrayVar(tools, "tool", nil, "let sprites see the program or folder `PATH` of this machine, read-only; repeatable (lattice doctor suggests some)")
}

// NewMachine returns the rules about the paths of this machine that sprites may see.
func NewMachine(env *setup.Env) toolchain.Machine {
	return toolchain.Machine{Home: env.Getenv("HOME"), State: env.Home, Path: env.Getenv("PATH"), Taken: spec.OwnFolders()}
}

// FindSharedCaches is where caches lie that all sprites of this user read: lattice in the XDG cache directory. It is "" when
// there is no such directory.
func FindSharedCaches(console *cli.Console) string {
	dir := console.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home := console.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "lattice")
}

// toolExits are the exit codes of refused paths; others end with 2.
var toolExits = map[string]int{toolchain.CodeMissing: protocol.ExitNotFound, toolchain.CodeUnsafe: protocol.ExitUnsafe}

// CheckTool judges one path. The error is a *fault.Error.
func CheckTool(env *setup.Env, path string) (string, error) {
	clean, err := NewMachine(env).Check(path)
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

// CheckSpriteTools judges the --tool flags of a command that makes a sprite wherever sprites are.
func CheckSpriteTools(env *setup.Env, paths []string) ([]string, error) {
	if len(paths) > 0 && env.RemoteSprites() != nil {
		return nil, fault.Unsupported("tools_are_local", "remote sprites cannot see this machine's programs").WithHint("leave out --tool, and install the programs in the sprite")
	}
	return CheckTools(env, paths)
}

// CheckTools checks the paths of --tool flags, and warns of links in them whose targets sprites do not see.
func CheckTools(env *setup.Env, paths []string) ([]string, error) {
	var checked []string
	for _, path := range paths {
		clean, err := CheckTool(env, path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(checked, clean) {
			checked = append(checked, clean)
		}
	}
	links := toolchain.Dangling(checked)
	for _, link := range links[:min(len(links), 3)] {
		fmt.Fprintf(env.Err, "lattice: warning: sprites will not see the target of %s; add it with --tool, too\n", link)
	}
	if more := len(links) - 3; more > 0 {
		fmt.Fprintf(env.Err, "lattice: warning: the same holds for %d more links\n", more)
	}
	return checked, nil
}

// ListRunTools returns the paths that a run's sprite keeps seeing under every leader: those of every sprite, and the named ones.
func ListRunTools(env *setup.Env, named []string) []string {
	all := mergeTools(env, env.Paths(env.Settings.Tools), func(error) {}) // the leader warns
	for _, path := range named {
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// ListHostTools are the paths that every sprite of the embedded host sees: the toolchains that are shown by default, and
// those that a person has set. One that is refused is left out with a warning: it was set for all runs, and most can do
// without it.
func ListHostTools(env *setup.Env, set []string) []string {
	return mergeTools(env, set, func(err error) {
		fmt.Fprintf(env.Err, "lattice: warning: a tool of the settings is left out: %v\n", err)
	})
}

func mergeTools(env *setup.Env, set []string, leftOut func(error)) []string {
	tools := slices.Clone(NewMachine(env).Default())
	for _, path := range set {
		clean, err := CheckTool(env, path)
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
