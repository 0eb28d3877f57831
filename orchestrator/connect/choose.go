package connect

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/fault"
)

// ChooseRun returns the run that a decision is about. Without a name it is the only one that waits; of several, the one
// that waits with the repository of the current folder. A decision is never about a guess: otherwise they are listed.
// With running, a run that goes on will do where none waits.
func ChooseRun(ctx context.Context, c *Conn, run string, running bool) (api.RunView, error) {
	if run != "" {
		return c.Run(ctx, run)
	}
	all, err := c.Runs(ctx, api.RunList{Open: true}) // newest first
	if err != nil {
		return api.RunView{}, err
	}
	found := keepRuns(all, complete.IsWaiting)
	if len(found) == 0 && running {
		found = keepRuns(all, complete.IsOpen)
	}
	if len(found) > 1 {
		here := findCheckout(ctx, workingDir())
		if near := keepRuns(found, func(v api.RunView) bool { return here.isCheckoutOf(v.Repo) }); len(near) == 1 {
			found = near
		}
	}
	switch len(found) {
	case 0:
		return api.RunView{}, fault.BadInput("nothing_waits", "no run waits for a person").WithHint("lattice runs")
	case 1:
		return c.Run(ctx, found[0].RunID)
	}
	list := "name one of these runs:"
	for i, v := range found {
		if i == 20 {
			list += fmt.Sprintf("\n  … and %d more", len(found)-i)
			break
		}
		list += fmt.Sprintf("\n  %s  %s  %s", v.RunID, v.Status, cli.Clean(strings.TrimSpace(v.Flow+"  "+v.Repo)))
		for _, w := range v.Waits {
			list += fmt.Sprintf("\n      %s: %s", cli.Clean(w.Node), cli.Clean(w.Prompt))
		}
	}
	return api.RunView{}, fault.BadInput("run_ambiguous", "%s", list).WithHint("lattice waiting")
}

// PageOfRuns lists runs. older is the run behind which the list goes on, "" at its end.
func (c *Conn) PageOfRuns(ctx context.Context, which api.RunList) (runs []api.RunView, older string, err error) {
	limit := which.Limit
	if limit < 0 {
		return nil, "", cli.UsageErrorf("--limit is a number; 0 lists all")
	}
	if limit > 0 {
		which.Limit++ // one more tells whether there are more
	}
	runs, err = c.Runs(ctx, which)
	if limit > 0 && len(runs) > limit {
		runs = runs[:limit]
		older = runs[limit-1].RunID
	}
	return runs, older, err
}

func keepRuns(all []api.RunView, keep func(api.RunView) bool) []api.RunView {
	return slices.DeleteFunc(slices.Clone(all), func(v api.RunView) bool { return !keep(v) })
}

// checkout is where a person stands: the folder without links, and the URL that its repository was cloned from.
type checkout struct{ dir, origin string }

func findCheckout(ctx context.Context, dir string) checkout {
	if dir == "" {
		return checkout{}
	}
	p := checkout{dir: dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		p.dir = real
	}
	cmd := exec.CommandContext(ctx, "git", "config", "--get", "remote.origin.url")
	cmd.Dir = dir
	if out, err := cmd.Output(); err == nil { // without git or a repository the folder alone decides
		p.origin = plainURL(string(out))
	}
	return p
}

func plainURL(url string) string {
	return strings.TrimSuffix(strings.TrimRight(remote.StripCredentials(strings.TrimSpace(url)), "/"), ".git")
}

// isCheckoutOf reports whether the repository of a run is the one that the person stands in.
func (p checkout) isCheckoutOf(repo string) bool {
	if repo == "" || p.dir == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(repo); err == nil {
		repo = real
	}
	below := strings.TrimSuffix(repo, "/") + "/"
	return strings.HasPrefix(p.dir+"/", below) || p.origin != "" && plainURL(repo) == p.origin
}

// WithoutRun is the part of the help of deciding commands about a missing RUN.
const WithoutRun = `
Without RUN, the command takes the only run that waits or, if several wait, the one that works on the repository of the
current folder. Otherwise it lists the runs and ends with 2.
`

// workingDir is the folder that a person stands in; "" when it is gone.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}
