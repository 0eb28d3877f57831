// Package intent holds the commands about intents: one file for all, because each only asks the leader and prints. Begin with
// New. They decide nothing.
package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/fault"
)

// New returns lattice intent.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "intent",
		Short: "Propose work, approve its plan, and see why something was done",
		Long: `An intent says why something is to be done. It is classified, judged by the policy, approved by people where the policy says
so, and carried out by a run. An approval names one version of the plan: flow, input, repository, base commit, the actions that
the run may perform, and the names of the variables that its agents get. If one of them changes, the plan has to be approved
again.`,
		Example: "  lattice intent create issue_triage --input title='It hangs' --input agent=claude\n  lattice intent ls\n  lattice intent approve int_0123",
	})
	cmd.AddCommand(newCreateCmd(env), newLsCmd(env), newShowCmd(env),
		newDecideCmd(env, "approve", "Approve the plan of an intent and carry it out"),
		newDecideCmd(env, "reject", "Reject the plan of an intent"),
		newDecideCmd(env, "cancel", "Cancel an intent, and its run"))
	return cmd
}

func newCreateCmd(env *setup.Env) *cobra.Command {
	var r api.IntentRequest
	var inputs, names []string
	var file string
	cmd := connect.NewQueryCmd(env, "create KIND", "Create an intent", "  lattice intent create sprite_task_exec --input command='uname -a'\n  lattice intent create doc_update --repo . --input agent=claude --key docs-today", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			r.Kind, r.Signal = list[0], "cli"
			if r.Repo != "" {
				cwd, err := os.Getwd()
				if err != nil {
					return err
				}
				r.Repo = remote.Absolute(r.Repo, cwd)
			}
			input, err := readInput(ctx, env, file, inputs)
			if err != nil {
				return err
			}
			r.Input = input
			r.AgentEnv, r.Routes = env.Agents().Preset(env.Agents().WithEnv(names), input)
			r.Secrets = env.Values().Set(r.AgentEnv)
			s, err := c.CreateIntent(ctx, r)
			if err != nil {
				return err
			}
			return printState(env, s)
		})
	long := []string{"Create an intent and take it as far as it goes without people. The kinds, the flow that carries each out, and its input\n(lattice flow show NAME):\n"}
	all := manifests.Intents()
	for _, kind := range cli.SortedKeys(all) {
		long = append(long, fmt.Sprintf("  %-23s %-16s %s", kind, all[kind].Flow, all[kind].Does))
	}
	cmd.Long = strings.Join(long, "\n") + "\n" + cli.ExitCodes
	f := cmd.Flags()
	f.StringVar(&r.Repo, "repo", "", "the repository: `URL` or path")
	f.StringVar(&r.Key, "key", "", "creating an intent with the same `KEY` again returns the first one")
	f.StringVar(&r.Subject, "subject", "", "the issue, pull request or check that it is about")
	f.StringArrayVar(&inputs, "input", nil, "input `k=v` (text) or k:=json; repeatable")
	f.StringVar(&file, "input-file", "", "JSON object with inputs; - is standard input")
	f.StringArrayVar(&names, "agent-env", nil, "pass environment variable `NAME` to the run's agent: the plan holds the name, and the command that starts the run, create or approve, the value")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return cli.SortedKeys(all), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// readInput merges an input file with k=v and k:=json pairs; pairs win.
func readInput(ctx context.Context, env *setup.Env, file string, pairs []string) (json.RawMessage, error) {
	input := map[string]json.RawMessage{}
	if file != "" {
		data, err := env.ReadInputFile(ctx, file)
		if err != nil {
			return nil, err
		}
		if err := cli.OnlyOnce(file, data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &input); err != nil || input == nil {
			return nil, fault.BadInput("bad_input", "%s is not a JSON object", file)
		}
	}
	for _, pair := range pairs {
		name, value, err := cli.ParsePair(pair)
		if err != nil {
			return nil, err
		}
		input[name] = value
	}
	return json.Marshal(input)
}

func newLsCmd(env *setup.Env) *cobra.Command {
	limit := 50
	cmd := connect.NewQueryCmd(env, "ls", "List intents, the newest first", "  lattice intent ls --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			all, err := c.Intents(ctx, "", limit)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, all, "INTENT\tKIND\tSTATUS\tRUN\tBY\tSUBJECT", func(s intent.State) []any {
				return []any{s.ID, s.Kind, s.Status, s.Run, s.ProposedBy.String(), s.Subject}
			})
		})
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most `N`; 0 lists all")
	return cmd
}

func newShowCmd(env *setup.Env) *cobra.Command {
	var why bool
	cmd := connect.NewQueryCmd(env, "show [INTENT]", "Print an intent and its plan, or the newest one's", "  lattice intent show int_0123 --why", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			s, err := c.Intent(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			if !why {
				return printState(env, s)
			}
			if !env.JSON {
				if err := printState(env, s); err != nil {
					return err
				}
			}
			return c.AuditEntries(ctx, audit.IntentOf(s.ID), 0, func(e audit.Entry) error {
				if env.JSON {
					return env.PrintJSON(e)
				}
				return printFact(env, e)
			})
		})
	cmd.Flags().BoolVar(&why, "why", false, "print each step with who or which rule decided it, from the audit log")
	return cmd
}

// printFact prints a fact of an intent on one line.
func printFact(env *setup.Env, e audit.Entry) error {
	var f intent.Fact
	if err := json.Unmarshal(e.Body, &f); err != nil {
		return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
	}
	parts := []string{string(f.Type)}
	for _, part := range []struct{ name, value string }{{"", string(f.Status)}, {"", f.Class}, {"", string(f.Decision)}, {"rule ", f.Rule}, {"", f.Run}, {"because ", f.Reason}} {
		if part.value != "" {
			parts = append(parts, part.name+part.value)
		}
	}
	if f.Plan != nil {
		parts = append(parts, fmt.Sprintf("version %d, digest %.12s", f.Plan.Version, f.Plan.Digest()))
	} else if f.Digest != "" {
		parts = append(parts, fmt.Sprintf("digest %.12s", f.Digest))
	}
	_, err := fmt.Fprintf(env.Out, "%d  %s  %s  %s\n", e.Seq, e.At.Local().Format(time.DateTime), cli.Clean(e.Who.String()), cli.Clean(strings.Join(parts, ", ")))
	return err
}

func newDecideCmd(env *setup.Env, verb, short string) *cobra.Command {
	d := api.IntentDecision{Decision: verb}
	cmd := connect.NewQueryCmd(env, verb+" INTENT", short, "  lattice intent "+verb+" int_0123", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if verb == "approve" {
				s, err := c.Intent(ctx, list[0])
				if err != nil {
					return err
				}
				d.Secrets = env.Values().Set(s.Plan.AgentEnv)
			}
			s, err := c.DecideIntent(ctx, list[0], d)
			if err != nil {
				return err
			}
			return printState(env, s)
		})
	if verb == "approve" {
		cmd.Flags().StringVar(&d.Plan, "plan", "", "the `DIGEST` of the plan that you saw, or its beginning; another plan is not approved")
	}
	cmd.Flags().StringVar(&d.Reason, "comment", "", "why; it is recorded")
	return cmd
}

// printState prints an intent.
func printState(env *setup.Env, s intent.State) error {
	if env.JSON {
		return env.PrintJSON(s)
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\t%s\n", s.ID, s.Kind, s.Status)
	for _, row := range []struct{ name, value string }{
		{"subject", s.Subject}, {"by", s.ProposedBy.String()}, {"class", s.Class}, {"rule", s.Rule}, {"reason", s.Reason},
		{"flow", s.Plan.Flow}, {"input", string(s.Plan.Input)}, {"repo", s.Plan.Repo}, {"base", s.Plan.Base}, {"actions", strings.Join(s.Plan.Actions, " ")},
		{"agent env", strings.Join(s.Plan.AgentEnv, " ")}, {"models of", strings.Join(s.Plan.Routes, " ")},
		{"plan", fmt.Sprintf("version %d, digest %.12s", s.Plan.Version, s.Digest)}, {"run", s.Run},
	} {
		if row.value != "" {
			fmt.Fprintf(w, "  %s\t%s\n", row.name, cli.Clean(row.value))
		}
	}
	for _, a := range s.Approvals {
		fmt.Fprintf(w, "  approved\tby %s at %s\n", cli.Clean(a.Who.Name), a.At.Local().Format(time.DateTime))
	}
	switch s.Status {
	case intent.Gated:
		fmt.Fprintf(w, "  next: lattice intent approve %s --plan %.12s\n    or: lattice intent reject %s\n", s.ID, s.Digest, s.ID)
	case intent.Waiting:
		fmt.Fprintf(w, "  next: lattice waiting\n")
	case intent.Executing:
		fmt.Fprintf(w, "  follow: lattice resume %s\n", s.Run)
	}
	return w.Flush()
}
