package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// agentVisible refuses a run whose input names an agent that this machine has and the run's own sprite would not see. An
// image has agents of its own, and so have remote sprites.
func (d *deps) agentVisible(r api.RunRequest) error {
	var input struct {
		Agent any `json:"agent"`
	}
	if json.Unmarshal(r.Input, &input) != nil || r.Sprite != "" || d.remoteSprites() != nil || r.Image != "" && r.Image != sprites.NoImage {
		return nil
	}
	name, _ := input.Agent.(string)
	if !slices.Contains(agentNames, name) {
		return nil
	}
	found := d.machine().Find(name)
	if len(found) == 0 {
		return nil // it may be in a folder that --tool shows
	}
	p := found[0] // the first on PATH
	if p.Seen || len(p.Show) == 0 || !slices.ContainsFunc(p.Show, func(path string) bool { return !shownBy(r.Tools, path) }) {
		return nil
	}
	return fault.NotFound("agent_not_visible", "sprites do not see the agent %s, which is %s", name, p.File).WithHint("--tool %s", strings.Join(p.Show, " --tool "))
}

// shownBy reports whether a path is one of those that are shown, or lies in one.
func shownBy(shown []string, path string) bool {
	return slices.ContainsFunc(shown, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// printDry says with what a run would start.
func (d *deps) printDry(v api.RunView) error {
	if d.json {
		return d.printJSON(map[string]any{"ok": true, "flow": v.Flow, "repo": v.Repo, "started_with": v.StartedWith})
	}
	with, err := json.MarshalIndent(v.StartedWith, "  ", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sanitizer{d.out}, "%s could start; nothing was started\n  %s\n", v.Flow, with)
	return err
}

// completeInputs offers the inputs that a flow's input_schema names.
func completeInputs(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(list) == 0 {
		return nil, directive
	}
	text, ok := manifests.Flow(list[0])
	if !ok {
		info, err := os.Stat(list[0])
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return nil, directive
		}
		if text, err = os.ReadFile(filepath.Clean(list[0])); err != nil {
			return nil, directive
		}
	}
	var flow struct {
		Schema struct {
			Properties map[string]struct {
				Type        any    `json:"type"`
				Description string `json:"description"`
			} `json:"properties"`
		} `json:"input_schema"`
	}
	if json.Unmarshal(text, &flow) != nil {
		return nil, directive
	}
	var words []string
	for _, name := range sortedKeys(flow.Schema.Properties) {
		p, assign := flow.Schema.Properties[name], ":="
		if strings.Contains(fmt.Sprint(p.Type), "string") {
			assign = "="
		}
		words = append(words, described(name+assign, p.Description))
	}
	return words, directive
}

// readConstraints reads the k=v and k:=json of --constraint.
func readConstraints(pairs []string) (map[string]any, error) {
	var all map[string]any
	for _, pair := range pairs {
		name, raw, err := parsePair(pair)
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
