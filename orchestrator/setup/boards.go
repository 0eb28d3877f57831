package setup

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/board/mirror"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Boards returns the folders whose boards are shown: those of the settings, else $LATTICE_ROOT, else the nearest one.
func (env *Env) Boards() []string {
	if len(env.Settings.Boards) > 0 {
		return env.Paths(env.Settings.Boards)
	}
	folder := env.Getenv("LATTICE_ROOT")
	if here, err := os.Getwd(); folder == "" && err == nil {
		folder, _ = board.Find(here) // "" if there is none
	}
	if folder == "" {
		return nil
	}
	return []string{folder}
}

// IssuesOf returns the repository at a code host of the settings from which the repository in a folder was cloned.
func (env *Env) IssuesOf(ctx context.Context, folder string) (mirror.Source, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", folder, "config", "--get", "remote.origin.url")
	cmd.Env = env.Environ
	out, err := cmd.Output()
	origin := strings.TrimSpace(string(out))
	if err != nil || origin == "" {
		return mirror.Source{}, fault.NotFound("forge_not_found", "the repository in %s has no remote origin", folder).WithHint("git remote add origin URL")
	}
	for _, name := range slices.Sorted(maps.Keys(env.Settings.Forges)) {
		s := env.Settings.Forges[name]
		if path, ok := forge.Locate(WebOf(s), origin); ok && slices.ContainsFunc(forgePaths(s), path.Equal) {
			return mirror.Source{Forge: name, Web: WebOf(s), Path: path, Poll: time.Duration(s.Poll), Client: func() (mirror.Client, error) { return env.CodeHosts().Client(name) }}, nil
		}
	}
	return mirror.Source{}, fault.NotFound("forge_not_found", "no code host of the settings has the origin of %s", folder).WithHint("lattice forge connect OWNER/NAME")
}

// MirroredIssues returns the repositories whose issues a leader brings to the boards of folders, by folder: those of code hosts
// with issues = true.
func (env *Env) MirroredIssues(folders []string) map[string]mirror.Source {
	all := map[string]mirror.Source{}
	for _, folder := range folders {
		if s, err := env.IssuesOf(context.Background(), folder); err == nil && env.Settings.Forges[s.Forge].Issues {
			all[folder] = s
		}
	}
	return all
}
