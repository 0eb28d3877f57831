package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newAuditCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "audit",
		Short: "See who decided and what was done outside of sprites",
		Long: `Every verdict of the policy, every approval, every action that was performed or refused, and every question to a model or call
of an agent with the amount that it took is an entry of the audit log. So is every call of the Sprites API; those entries are
written with the next one that something waits for, so a crash can lose the last of them. Entries are only appended, and each one holds the digest of the entry before it. The users are those that the kernel names, not those
that a request names. Credentials are left out.`,
		Example: "  lattice audit ls run_0123\n  lattice audit verify",
	})
	var capability string
	var all bool
	ls := connect.NewQueryCmd(env, "ls [RUN]", "List the audit log, or the entries about one run", "  lattice audit ls\n  lattice audit ls run_0123 --json\n  lattice audit ls --capability sprites", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if known := audit.Capabilities(); capability != "" && !slices.Contains(known, capability) {
				return fault.BadInput("bad_input", "%.64q is not a capability", capability).WithHint("one of: %s", strings.Join(known, ", "))
			}
			if all && capability != "" {
				return cli.UsageErrorf("--all and --capability exclude each other")
			}
			subject := ""
			if id := cli.Optional(list); id != "" {
				v, err := c.Run(ctx, id)
				if err != nil {
					return err
				}
				subject = audit.Run(v.RunID)
			}
			return printAudit(ctx, env, c, subject, func(e audit.Entry) bool {
				if capability != "" {
					return e.Uses(capability)
				}
				return all || !e.IsCall()
			})
		})
	ls.Flags().BoolVar(&all, "all", false, "list calls of the Sprites API as well")
	ls.Flags().StringVar(&capability, "capability", "", "list only its use: "+strings.Join(audit.Capabilities(), ", "))
	_ = ls.RegisterFlagCompletionFunc("capability", cobra.FixedCompletions(audit.Capabilities(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	verify := connect.NewQueryCmd(env, "verify", "Check that no entry of the audit log was changed or removed", "  lattice audit verify", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			var seq uint64
			prev := ""
			err := c.AuditEntries(ctx, "", 0, func(e audit.Entry) error {
				seq++
				if err := e.Verify(seq, prev); err != nil {
					return fault.Failed("audit_broken", "%v", err).WithHint("lattice store restore FILE brings a backup back; an older copy of the log shows what was changed")
				}
				prev = e.Sum
				return nil
			})
			if err != nil {
				return err
			}
			return env.PrintResult(map[string]any{"ok": true, "entries": seq, "sum": prev},
				"%s, each follows the one before it; the last digest is %s", cli.Count(int(seq), "entry", "entries"), prev)
		})
	cmd.AddCommand(ls, verify)
	return cmd
}

// printAudit prints the entries of a subject that the filter keeps.
func printAudit(ctx context.Context, env *setup.Env, c *connect.Conn, subject string, keep func(audit.Entry) bool) error {
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	if err := c.AuditEntries(ctx, subject, 0, func(e audit.Entry) error {
		if !keep(e) {
			return nil
		}
		if env.JSON {
			return env.PrintJSON(e)
		}
		_, err := fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Seq, e.At.Local().Format(time.DateTime), cli.Clean(e.Who.String()), cli.Clean(e.Subject), e.Kind, auditText(e))
		return err
	}); err != nil {
		return err
	}
	return w.Flush()
}

// auditText describes the body of an entry on one line.
func auditText(e audit.Entry) string {
	if e.Kind == audit.Budget {
		return budgetText(e)
	}
	var b map[string]any
	if json.Unmarshal(e.Body, &b) != nil {
		return ""
	}
	var parts []string
	for _, name := range []string{"fact", "call", "action", "step", "service", "phase", "error", "kind", "name", "status", "flow", "node", "intent_id", "decision", "rule", "command", "role", "looks_like", "found", "where", "code", "from", "outcome", "reason", "comments"} {
		if text, ok := b[name].(string); ok && text != "" {
			if name == "rule" || name == "comments" {
				text = name + " " + text
			}
			parts = append(parts, cli.Clean(text))
		}
	}
	bound, _ := b["binding"].(map[string]any)
	if bound["head"] != nil {
		parts = append(parts, cli.Clean(fmt.Sprintf("%v of %v at %.12v", bound["branch"], bound["remote"], bound["head"])))
	}
	warnings, _ := bound["warnings"].([]any)
	for _, w := range warnings {
		parts = append(parts, cli.Clean(fmt.Sprintf("careful: %v", w)))
	}
	return strings.Join(parts, ", ")
}

// budgetText describes the body of an entry about a budget on one line.
func budgetText(e audit.Entry) string {
	var f budget.Fact
	if json.Unmarshal(e.Body, &f) != nil {
		return ""
	}
	parts := []string{string(f.Op)}
	switch f.Op {
	case budget.Raised, budget.RaiseRefused:
		parts[0] = fmt.Sprintf("%s %s by %s", f.Op, f.Scopes, f.Amount)
	case budget.Reserved, budget.Settled:
		parts[0] = fmt.Sprintf("%s %s", f.Op, f.Amount)
	}
	for _, text := range []string{f.Call, f.ID, f.Reason} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return cli.Clean(strings.Join(parts, ", "))
}
