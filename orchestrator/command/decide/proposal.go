package decide

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newProposalCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "proposal",
		Short: "See and decide the changes of their environment that sprites propose",
		Long: `A sprite can propose a change of its environment after a failure (env.propose): a runtime, a package, a step before the
rest, another test command, access to a network name. It changes nothing itself. The change is tried in a fresh sprite, up to
the step that failed; if that succeeds, later runs on the same repository have it. At a connected code host (lattice help forge) a
green CI of the commit that the run pushed last is as good. A change for all repositories, packages of
the system and access to the network need a person's approval as well. lattice show says which changes a run has.`,
		Example: "  lattice proposal ls\n  lattice proposal show 4f2a\n  lattice proposal approve 4f2a",
	})
	cmd.AddCommand(newProposalLsCmd(env), newProposalShowCmd(env), newProposalVerifyCmd(env),
		newProposalDecideCmd(env, "approve", "Approve a proposal", lattice.Approve),
		newProposalDecideCmd(env, "reject", "Reject a proposal; later runs do not have it", lattice.Reject))
	return cmd
}

func newProposalLsCmd(env *setup.Env) *cobra.Command {
	var all bool
	var run string
	cmd := connect.NewQueryCmd(env, "ls", "List the proposals that are not decided yet", "  lattice proposal ls\n  lattice proposal ls --all --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			list, err := c.Proposals(ctx, api.ProposalList{Run: run, Open: !all && run == ""})
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, list, "ID\tSTATUS\tSCOPE\tCOUNT\tPROPOSAL", func(s proposal.State) []any {
				return []any{s.ID, s.Status, s.Scope, s.Count, s.Summary()}
			})
		})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().BoolVar(&all, "all", false, "list decided ones, too")
	cmd.Flags().StringVar(&run, "run", "", "list those that the run `ID` made, decided ones, too")
	return cmd
}

func newProposalShowCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewQueryCmd(env, "show ID", "Show a proposal, its evidence, and what is missing for its acceptance", "  lattice proposal show 4f2a\n  lattice proposal show 4f2a --json", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			s, err := c.Proposal(ctx, list[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(s)
			}
			printProposal(env.Console, s)
			return nil
		})
	cmd.ValidArgsFunction = completeProposals(env)
	return cmd
}

// printProposal shows all that is known of a proposal.
func printProposal(console *cli.Console, s proposal.State) {
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, cli.Clean(fmt.Sprintf(format, args...)))
	}
	row(s.ID, "%s", s.Summary())
	row("  status", "%s", s.Status)
	row("  scope", "%s %s", s.Scope, s.Repo)
	row("  failure", "%s: exit %d: %s", s.Failure.Phase, s.Failure.ExitCode, s.Failure.StderrHint)
	row("  confidence", "%.0f %%, as the sprite says", 100*s.Confidence)
	for _, e := range s.Evidence {
		row("  evidence", "%s", e)
	}
	row("  proposed", "%d times, last by %s", s.Count, s.Runs[len(s.Runs)-1])
	if t := s.Trial; t != nil && t.OK {
		row("  tried", "it helped (%s)", t.Run)
	} else if t != nil {
		row("  tried", "it did not help (%s): %s", t.Run, t.Detail)
	}
	if ci := s.CI; ci != nil {
		row("  CI", "%s at %.12s (%s)", map[bool]string{true: "green", false: "red"}[ci.OK], ci.Commit, ci.Run)
	}
	if a := s.Approval; a != nil {
		verb := map[bool]string{true: "approved", false: "rejected"}[a.Approved]
		row("  "+verb, "by %s at %s %s", a.By, a.At.Local().Format("2006-01-02 15:04"), a.Comments)
	}
	_ = w.Flush() // as any print
}

func newProposalVerifyCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewQueryCmd(env, "verify ID", "Try a proposal in a fresh sprite, and follow the run that does", "  lattice proposal verify 4f2a", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			s, err := follow.VerifyProposal(ctx, env.Console, c, list[0], api.Values{})
			switch {
			case err != nil:
				return err
			case env.JSON:
				err = env.PrintJSON(s)
			}
			if err == nil && s.Trial != nil && !s.Trial.OK {
				err = &cli.ExitError{Code: protocol.ExitFailed}
			}
			return err
		})
	cmd.ValidArgsFunction = completeProposals(env)
	return cmd
}

func newProposalDecideCmd(env *setup.Env, verb, short string, decision lattice.Decision) *cobra.Command {
	var comment string
	cmd := connect.NewQueryCmd(env, verb+" ID", short, "  lattice proposal "+verb+" 4f2a --comment 'agreed with ops'", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			s, err := c.DecideProposal(ctx, list[0], api.ProposalDecision{Decision: decision, Comments: comment})
			if err != nil {
				return err
			}
			return env.PrintResult(s, "%s %s: %s", s.ID, s.Status, cli.Clean(s.Summary()))
		})
	cmd.ValidArgsFunction = completeProposals(env)
	cmd.Flags().StringVar(&comment, "comment", "", "why; it is recorded")
	return cmd
}

// completeProposals completes the ids of open proposals.
func completeProposals(env *setup.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := connect.Dial(cmd.Context(), env, connect.Options{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		all, err := c.Proposals(cmd.Context(), api.ProposalList{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, s := range all {
			ids = append(ids, cobra.CompletionWithDesc(s.ID, s.Summary()))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
