package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree"
)

// printPushed tells a person where a run's work is and how to take it over, if it pushed any. What was pushed is known
// from outside of the sprite, by the actions that were done; the last one counts.
func printPushed(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView) {
	if v.Repo == "" {
		return
	}
	branch := ""
	err := c.Outline(ctx, v.RunID, 0, func(e lattice.Entry) error {
		var done lattice.ActionSettled // ActionDone has its members
		var r action.Result
		if e.Kind == lattice.EntryFact && (e.Type == (lattice.ActionDone{}).FactType() || e.Type == done.FactType()) && json.Unmarshal(e.Body, &done) == nil && done.OK && json.Unmarshal(done.Result, &r) == nil && r.Branch != "" {
			branch = r.Branch
		}
		return nil
	})
	if err != nil || branch == "" {
		return // lattice artifacts says why
	}
	repo := worktree.StripCredentials(v.Repo)
	merge := fmt.Sprintf("git fetch %s %s && git merge FETCH_HEAD", word(repo), word(branch))
	if strings.HasPrefix(repo, "/") {
		merge = fmt.Sprintf("git -C %s merge %s", word(repo), word(branch))
	}
	fmt.Fprintf(console.Out, "  The result is branch %s of %s. Merge it with: %s\n", cli.Clean(branch), cli.Clean(repo), merge)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// word is text as one word of a shell's command line.
func word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(cli.Clean(text), "'", `'\''`) + "'"
}
