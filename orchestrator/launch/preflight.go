package launch

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// checkAgentVisible refuses a run whose input names an agent that this machine has and the run's own sprite would not see. An
// image has agents of its own, and so have remote sprites.
func checkAgentVisible(env *setup.Env, r api.RunRequest) error {
	var input struct {
		Agent any `json:"agent"`
	}
	if json.Unmarshal(r.Input, &input) != nil || r.Sprite != "" || r.From != nil || env.RemoteSprites() != nil || r.Image != "" && r.Image != sprites.NoImage {
		return nil
	}
	name, _ := input.Agent.(string)
	name = setup.ProgramOf(name)
	if !slices.Contains(setup.AgentNames, name) {
		return nil
	}
	machine := equip.NewMachine(env)
	usual := machine.Default()
	found := machine.Find(name)
	if len(found) == 0 {
		machine.Path = agentFolders(machine.Home)
		found = machine.Find(name)
	}
	if len(found) == 0 {
		if slices.ContainsFunc(r.Tools, func(dir string) bool { return !slices.Contains(usual, dir) }) {
			return nil // it may be in a folder that --tool shows
		}
		return fault.NotFound("agent_not_visible", "the agent %s is not on PATH, and no --tool shows it", name).WithHint("install it, for example with npm, and run again; lattice doctor shows the agents that it finds")
	}
	p := found[0] // the first on PATH
	if p.Seen || len(p.Show) == 0 || !slices.ContainsFunc(p.Show, func(path string) bool { return !shownBy(r.Tools, path) }) {
		return nil
	}
	return fault.NotFound("agent_not_visible", "sprites do not see the agent %s, which is %s", name, p.File).WithHint("--tool %s", strings.Join(p.Show, " --tool "))
}

// agentFolders returns, as a PATH, the folders beside PATH in which agents are installed: those of npm prefixes, nvm, bun and
// volta, and those of the system.
func agentFolders(home string) string {
	dirs := []string{"/usr/local/bin", "/usr/bin", "/bin", "/opt/node/bin"}
	for _, pattern := range []string{".local/bin", ".npm-global/bin", ".npm/bin", ".bun/bin", ".volta/bin", ".nvm/versions/node/*/bin", "node_modules/.bin"} {
		if found, err := filepath.Glob(filepath.Join(home, pattern)); err == nil && home != "" {
			dirs = append(dirs, found...)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// shownBy reports whether a path is one of those that are shown, or lies in one.
func shownBy(shown []string, path string) bool {
	return slices.ContainsFunc(shown, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// PrintDryRun prints the values that a run would start with.
func PrintDryRun(console *cli.Console, v api.RunView) error {
	if console.JSON {
		return console.PrintJSON(map[string]any{"ok": true, "flow": v.Flow, "repo": v.Repo, "started_with": v.StartedWith, "warnings": append([]string{}, v.Notice...)})
	}
	with, err := json.MarshalIndent(v.StartedWith, "  ", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cli.Sanitize(console.Out), "%s can start; nothing was started\n  %s\n", v.Flow, with)
	return err
}

// readConstraints reads the k=v and k:=json of --constraint.
func readConstraints(pairs []string) (map[string]any, error) {
	var all map[string]any
	for _, pair := range pairs {
		name, raw, err := cli.ParsePair(pair)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]any{}
		}
		if _, twice := all[name]; twice {
			return nil, fault.BadInput("key_duplicate", "the constraint %s is given twice", name).WithHint("keep one of the two")
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, nil
}
