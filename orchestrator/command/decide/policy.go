package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

func newPolicyCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "policy",
		Short: "See and check the rules about what runs may do outside",
		Long: `A policy decides about the actions that sprites ask for, about intents, about skills that act outside, and about the files
that a push may change. The default table is part of lattice. policy.toml beside config.toml replaces rules of it for this
server. .lattice/policy.toml in a repository makes the rules stricter for that repository; runs use the file of the commit
that they begin with, never the one that they change.`,
		Example: "  lattice policy show\n  lattice policy explain PUSH_BRANCH .github/workflows/ci.yml\n  lattice policy check .lattice/policy.toml",
	})
	cmd.AddCommand(newPolicyExplainCmd(env), newPolicyShowCmd(env), newPolicyCheckCmd(env))
	return cmd
}

// openPolicy returns the policy for a repository; its file is read from the commit HEAD of a local repository.
func openPolicy(ctx context.Context, env *setup.Env, repo string) (policy.Policy, error) {
	server, err := env.ServerPolicy()
	if err != nil {
		return policy.Policy{}, err
	}
	p := policy.New(repo, server...)
	if repo == "" {
		return p, nil
	}
	scratch, err := os.MkdirTemp("", "lattice-policy-")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(scratch)
	git, err := worktree.New(worktree.Options{Env: env.Environ, Scratch: scratch, Authorize: env.CodeHosts().AuthorizeGit})
	if err != nil {
		return p, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return p, err
	}
	_, text, err := git.Base(ctx, remote.Absolute(repo, cwd))
	var refused *lattice.Refusal
	switch {
	case errors.As(err, &refused):
		return p, fault.Failed(refused.Fault.Code, "%s", refused.Fault.Message).WithHint("%s", refused.Fault.Hint)
	case err != nil || text == "":
		return p, err
	}
	layer, err := setup.ParsePolicy(worktree.PolicyFile, []byte(text), true)
	return p.Narrow(layer), err
}

// explanation is a line of lattice policy explain --json.
type explanation struct {
	Subject string `json:"subject"`
	Kind    string `json:"kind"` // action, intent, skill, path or budget
	policy.Verdict
	Path   *policy.PathVerdict `json:"path,omitempty"`
	Budget *limits             `json:"-"`
}

// limits is the line of a budget, in the place of an explanation.
type limits struct {
	Subject string                      `json:"subject"`
	Kind    string                      `json:"kind"` // budget
	Limit   budget.Amount               `json:"limit"`
	Rules   map[budget.Unit]policy.Rule `json:"rules"`
}

// budgetsPrefix precedes the name of a budget.
const budgetsPrefix = "budgets."

func newLimits(p policy.Policy, name string) *limits {
	limit, rules := p.Budget(name)
	return &limits{Subject: budgetsPrefix + name, Kind: "budget", Limit: limit, Rules: rules}
}

func newPolicyExplainCmd(env *setup.Env) *cobra.Command {
	var repo, as string
	cmd := &cobra.Command{
		Use:   "explain ACTION|INTENT|PATH|BUDGET…",
		Short: "Print the decision of the policy, and the rule that decided",
		Long: `Print the decision about each action, kind of intent or file, and the rule that decided: its file, line and key. A name in
capitals is an action, a kind of intent is an intent, budgets.run or budgets.day is a budget, budgets.raise is the rule about
who may raise one, rate.intents_per_hour is the limit of intents, anything else is the path of a file in a repository; --as says so.

With --json: one object a line, {"subject","kind","decision","class","rule":{"source","line","name"},"reason",…}; of a path
the decision is in "path"; of a budget {"subject","kind","limit","rules"}.
` + cli.ExitCodes,
		Example: "  lattice policy explain PUSH_BRANCH LABEL_ISSUE\n  lattice policy explain --repo . src/.env\n  lattice policy explain --as skill mail.send",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			known := policy.Default()
			return slices.Concat(slices.Sorted(maps.Keys(known.Actions)), slices.Sorted(maps.Keys(known.Intents))), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, list []string) error {
			p, err := openPolicy(c.Context(), env, repo)
			if err != nil {
				return err
			}
			for _, subject := range list {
				e, err := explain(p, subject, as)
				if err != nil {
					return err
				}
				if err := printExplanation(env.Console, e); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "the repository, whose profiles and policy hold as well")
	cmd.Flags().StringVar(&as, "as", "", "what the names are: action, intent, skill, path, budget or rate")
	return cmd
}

func explain(p policy.Policy, subject, as string) (explanation, error) {
	if as == "" {
		_, intent := policy.Default().Intents[subject]
		switch {
		case intent:
			as = "intent"
		case subject == policy.RateName:
			as = "rate"
		case slices.Contains(append(policy.BudgetNames(), policy.RaiseName), strings.TrimPrefix(subject, budgetsPrefix)) && strings.HasPrefix(subject, budgetsPrefix):
			as = "budget"
		case strings.ToUpper(subject) == subject && strings.Trim(subject, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "":
			as = "action"
		default:
			as = "path"
		}
	}
	e := explanation{Subject: subject, Kind: as}
	switch as {
	case "action":
		e.Verdict = p.Action(policy.Request{Name: subject})
	case "intent":
		e.Verdict = p.Intent(subject)
	case "skill":
		e.Verdict = p.World(subject)
	case "path":
		v := p.Path(policy.Change{Path: strings.TrimPrefix(filepath.ToSlash(subject), "./")})
		e.Path = &v
		e.Rule, e.Reason = v.Rule, v.Why
		e.Decision = map[policy.PathDecision]lattice.Verdict{policy.PathDeny: lattice.Deny, policy.PathAsk: lattice.Ask}[v.Decision]
		if e.Decision == "" {
			e.Decision = lattice.Allow
		}
	case "rate":
		e.Decision = lattice.Allow
		e.Max, e.Rule = p.Rate()
	case "budget":
		name := strings.TrimPrefix(subject, budgetsPrefix)
		if name == policy.RaiseName {
			e.Verdict = p.Raise()
			return e, nil
		}
		if !slices.Contains(policy.BudgetNames(), name) {
			return e, fault.BadInput("bad_input", "%.64q is not a budget", name).WithHint("one of: %s", strings.Join(policy.BudgetNames(), ", "))
		}
		e.Budget = newLimits(p, name)
	default:
		return e, fault.BadInput("bad_input", "%q is not one of action, intent, skill, path, budget and rate", as).WithHint("lattice policy explain --as action NAME")
	}
	return e, nil
}

func printExplanation(console *cli.Console, e explanation) error {
	switch {
	case e.Budget != nil:
		return printLimits(console, e.Budget)
	case console.JSON:
		return console.PrintJSON(e)
	}
	decision := string(e.Decision)
	if e.Path != nil {
		decision = string(e.Path.Decision)
	}
	text := fmt.Sprintf("%s %s: %s", e.Kind, cli.Clean(e.Subject), decision)
	if e.Class != "" {
		text += fmt.Sprintf(" (%s)", e.Class)
	}
	for _, part := range limitTexts(e.Verdict) {
		text += ", " + part
	}
	if e.Kind == "rate" {
		text = fmt.Sprintf("rate intents_per_hour: %d for each person or token", e.Max)
	}
	if e.Kind == "budget" {
		text = "budget raise: by " + cmp.Or(cli.Clean(strings.Join(e.Approve.By, ", ")), "all users")
	}
	if e.Path != nil && e.Reason != "" {
		text += ": the change " + cli.Clean(e.Reason)
	}
	_, err := fmt.Fprintf(console.Out, "%s\n  rule: %s\n", text, cli.Clean(e.Rule.String()))
	return err
}

// printLimits prints the limits of a budget with their rules.
func printLimits(console *cli.Console, l *limits) error {
	if console.JSON {
		return console.PrintJSON(l)
	}
	text := fmt.Sprintf("budget %s: no limit\n", strings.TrimPrefix(l.Subject, budgetsPrefix))
	if l.Limit != (budget.Amount{}) {
		text = fmt.Sprintf("budget %s: %s\n", strings.TrimPrefix(l.Subject, budgetsPrefix), l.Limit)
	}
	for _, u := range budget.Units() {
		if rule, ok := l.Rules[u]; ok {
			text += fmt.Sprintf("  rule: %s\n", cli.Clean(rule.String()))
		}
	}
	_, err := fmt.Fprint(console.Out, text)
	return err
}

// limitTexts returns the conditions of a verdict as text.
func limitTexts(v policy.Verdict) (parts []string) {
	if v.Max > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in one run", v.Max))
	}
	if v.Staged {
		parts = append(parts, "shown and not performed")
	}
	if v.Notes {
		parts = append(parts, "with the statement about the commit as a git note")
	}
	if v.Approve.People > 1 {
		parts = append(parts, fmt.Sprintf("%d people approve", v.Approve.People))
	}
	if v.Approve.NotRequester {
		parts = append(parts, "not approved by the requester")
	}
	if v.Older == policy.CancelOlder {
		parts = append(parts, "cancels older ones about the same subject")
	}
	if len(v.Approve.By) > 0 {
		parts = append(parts, "approved by "+cli.Clean(strings.Join(v.Approve.By, " ")))
	}
	return parts
}

func newPolicyShowCmd(env *setup.Env) *cobra.Command {
	var repo string
	var standard bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the rules that hold, or the default table",
		Long:    "Print the decision about each action and kind of intent with the rule that made it, and the rules about files in the order in\nwhich they are tried. --default prints the default table as a policy file.\n" + cli.ExitCodes,
		Example: "  lattice policy show --repo .\n  lattice policy show --default > policy.toml",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if standard {
				_, err := env.Out.Write(policy.DefaultText())
				return err
			}
			p, err := openPolicy(c.Context(), env, repo)
			if err != nil {
				return err
			}
			return printPolicy(env.Console, p)
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "the repository, whose profiles and policy hold as well")
	cmd.Flags().BoolVar(&standard, "default", false, "print the default table")
	cmd.MarkFlagsMutuallyExclusive("repo", "default")
	return cmd
}

func printPolicy(console *cli.Console, p policy.Policy) error {
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, kind := range []string{"action", "intent"} {
		for _, name := range p.Names(kind) {
			e, err := explain(p, name, kind)
			if err != nil {
				return err
			}
			if console.JSON {
				if err := console.PrintJSON(e); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", kind, cli.Clean(name), e.Decision, e.Class, cli.Clean(e.Rule.String()), strings.Join(limitTexts(e.Verdict), ", "))
		}
	}
	for _, name := range policy.BudgetNames() {
		l := newLimits(p, name)
		if console.JSON {
			if err := console.PrintJSON(l); err != nil {
				return err
			}
			continue
		}
		for _, u := range budget.Units() {
			if rule, ok := l.Rules[u]; ok {
				fmt.Fprintf(w, "budget\t%s\t%s\t\t%s\t\n", name, u.Text(l.Limit.Of(u)), cli.Clean(rule.String()))
			}
		}
	}
	for _, r := range p.PathRules() {
		if console.JSON {
			if err := console.PrintJSON(map[string]any{"kind": "path", "decision": r.Decision, "rule": r.Rule, "match": r.Match, "why": r.Why}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "path\t%s\t%s\t\t%s\t%s\n", cli.Clean(r.Name), r.Decision, cli.Clean(r.Rule.String()), cli.Clean(text.Head(strings.Join(r.Match, " "), 60)))
	}
	return w.Flush()
}

func newPolicyCheckCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file",
		Long: `Check a policy file and print all problems with their lines. A file below a folder .lattice is checked as the policy of a
repository, which has no profiles and no rules about skills.

Exit codes: 0 valid, 2 not valid, 3 there is no such file.`,
		Example: "  lattice policy check .lattice/policy.toml",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, list []string) error {
			text, err := setup.ReadBounded(list[0])
			if errors.Is(err, fs.ErrNotExist) {
				return fault.NotFound("policy_not_found", "there is no file %s", list[0])
			}
			if err != nil {
				return fault.BadInput("policy_invalid", "read the policy: %v", err)
			}
			path, err := filepath.Abs(list[0])
			if err != nil {
				return err
			}
			if _, err := setup.ParsePolicy(list[0], text, filepath.Base(filepath.Dir(path)) == ".lattice"); err != nil {
				return err
			}
			return env.PrintResult(map[string]any{"ok": true, "file": list[0]}, "%s is valid", list[0])
		},
	}
}
