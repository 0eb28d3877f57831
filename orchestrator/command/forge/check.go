package forge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// checkView is the state of one repository at a code host.
type checkView struct {
	Forge      string     `json:"forge"`
	Repository string     `json:"repository,omitempty"`
	Account    string     `json:"account,omitempty"`
	Role       forge.Role `json:"role,omitempty"`
	Problem    string     `json:"problem,omitempty"`
}

func newCheckCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "check [NAME]",
		Short: "Connect to the code hosts, and check the token and its role in each repository",
		Long: `Connect to each code host of the settings, or to one, with the token that the settings name. The account needs the role write in
a repository to push and to open pull requests. The exit code is 1 if there is any problem.`,
		Example:           "  lattice forge check\n  lattice forge check main --json",
		Args:              cli.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeNames(env),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				list = slices.Sorted(maps.Keys(env.Settings.Forges))
			}
			if len(list) == 0 {
				return fault.NotFound("forge_not_found", "the settings name no code hosts").WithHint("lattice help forge")
			}
			var views []checkView
			for _, name := range list {
				c, err := env.CodeHosts().Client(name)
				if err != nil {
					return err
				}
				views = append(views, checkHost(cmd.Context(), c, name, env.Settings.Forges[name].Repositories)...)
			}
			if err := cli.PrintTable(env.Console, views, "FORGE\tREPOSITORY\tACCOUNT\tROLE\tPROBLEM", func(v checkView) []any {
				return []any{v.Forge, v.Repository, v.Account, v.Role, v.Problem}
			}); err != nil {
				return err
			}
			if slices.ContainsFunc(views, func(v checkView) bool { return v.Problem != "" }) {
				return fault.Failed("forge_unusable", "a code host cannot be used as the settings say").WithHint("correct the token, its permissions, or [forges.NAME] in the settings")
			}
			return nil
		},
	}
}

// checkHost returns the state of each repository of a code host.
func checkHost(ctx context.Context, c forge.Client, name string, repositories []string) []checkView {
	self, err := c.Self(ctx)
	if err != nil {
		return []checkView{{Forge: name, Problem: explainProblem(err)}}
	}
	if len(repositories) == 0 {
		return []checkView{{Forge: name, Account: self.Login, Problem: "the settings name no repositories"}}
	}
	var views []checkView
	for _, repository := range repositories {
		v := checkView{Forge: name, Repository: repository, Account: self.Login}
		if path, ok := forge.ParsePath(repository); !ok {
			v.Problem = "it is not OWNER/NAME"
		} else if _, err := c.Repository(ctx, path); err != nil {
			v.Problem = explainProblem(err)
		} else if v.Role, err = c.Role(ctx, path, self.ID); err != nil && !isForbidden(err) {
			v.Problem = explainProblem(err)
		} else if !v.Role.AtLeast(forge.Write) { // GitHub tells roles only to accounts with that one
			v.Problem = fmt.Sprintf("the account %s needs the role write", self.Login)
		}
		views = append(views, v)
	}
	return views
}

func isForbidden(err error) bool {
	p, ok := errors.AsType[*forge.Problem](err)
	return ok && p.Status == http.StatusForbidden && !p.Limited()
}

// explainProblem returns an error as text for people.
func explainProblem(err error) string {
	if forge.IsNotFound(err) {
		return "the repository does not exist, or the account may not see it"
	}
	if told, ok := errors.AsType[*fault.Error](err); ok {
		return told.Message
	}
	return err.Error()
}
