package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/text"
)

// printPushed tells a person where a run's work is and how to take it over, if it pushed any. The pushes are known
// from outside of the sprite, by the actions that were done; the last one counts.
func printPushed(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView) {
	if v.Repo == "" {
		return
	}
	var last pushResult
	err := c.Outline(ctx, v.RunID, 0, func(e lattice.Entry) error {
		var done lattice.ActionSettled // ActionDone has its members
		var r pushResult
		if e.Kind == lattice.EntryFact && (e.Type == (lattice.ActionDone{}).FactType() || e.Type == done.FactType()) && json.Unmarshal(e.Body, &done) == nil && done.OK && json.Unmarshal(done.Result, &r) == nil && r.Branch != "" {
			last = r
		}
		return nil
	})
	if err != nil || last.Branch == "" {
		return // lattice artifacts says why
	}
	printMerge(console, remote.StripCredentials(v.Repo), last.Branch)
	for _, also := range last.Also {
		if also.Ref != "" { // of a pull request the URL is not that of the repository
			printMerge(console, remote.StripCredentials(also.URL), also.Branch)
		}
	}
}

// pushResult is the result of a push, also to further repositories.
type pushResult struct {
	action.Result
	Also []action.Result `json:"also"`
}

func printMerge(console *cli.Console, repo, branch string) {
	merge := fmt.Sprintf("git fetch %s %s && git merge FETCH_HEAD", shellWord(repo), shellWord(branch))
	if strings.HasPrefix(repo, "/") {
		merge = fmt.Sprintf("git -C %s merge %s", shellWord(repo), shellWord(branch))
	}
	fmt.Fprintf(console.Out, "  The result is branch %s of %s. Merge it with: %s\n", cli.Clean(branch), cli.Clean(repo), merge)
}

// shellWord returns a text of a sprite, without control characters, as one word of a shell.
func shellWord(s string) string { return text.ShellWord(cli.Clean(s)) }
