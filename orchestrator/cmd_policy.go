package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newPolicyCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "policy",
		Short: "See and check the rules about what runs may do outside",
		Long: `A policy decides about the actions that sprites ask for, about intents, about skills that act outside, and about the files
that a push may change. The default table is part of lattice. policy.toml beside config.toml replaces rules of it for this
server. .lattice/policy.toml in a repository makes the rules stricter for that repository; runs use the file of the commit
that they begin with, never the one that they change.`,
		Example: "  lattice policy show\n  lattice policy explain PUSH_BRANCH .github/workflows/ci.yml\n  lattice policy check .lattice/policy.toml",
	})
	cmd.AddCommand(newPolicyExplainCmd(d), newPolicyShowCmd(d), newPolicyCheckCmd(d))
	return cmd
}

// openPolicy returns the policy for a repository; its file is read from the commit HEAD of a local repository.
func (d *deps) openPolicy(ctx context.Context, repo string) (policy.Policy, error) {
	server, err := d.serverPolicy()
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
	git, err := worktree.New(worktree.Options{Env: d.environ, Scratch: scratch})
	if err != nil {
		return p, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return p, err
	}
	text, err := git.Policy(ctx, worktree.Absolute(repo, cwd))
	var refused *lattice.Refusal
	switch {
	case errors.As(err, &refused):
		return p, fault.Failed(refused.Fault.Code, "%s", refused.Fault.Message).WithHint("%s", refused.Fault.Hint)
	case err != nil || text == "":
		return p, err
	}
	layer, err := parsePolicy(worktree.PolicyFile, []byte(text), true)
	return p.Narrow(layer), err
}

// explanation is a line of lattice policy explain --json.
type explanation struct {
	Subject string `json:"subject"`
	Kind    string `json:"kind"` // action, intent, skill or path
	policy.Verdict
	Path *policy.PathVerdict `json:"path,omitempty"`
}

func newPolicyExplainCmd(d *deps) *cobra.Command {
	var repo, as string
	cmd := &cobra.Command{
		Use:   "explain ACTION|INTENT|PATH…",
		Short: "Print the decision of the policy, and the rule that decided",
		Long: `Print the decision about each action, kind of intent or file, and the rule that decided: its file, line and key. A name in
capitals is an action, a kind of intent is an intent, anything else is the path of a file in a repository; --as says so.

With --json: one object a line, {"subject","kind","decision","class","rule":{"source","line","name"},"reason",…}; of a path
the decision is in "path".
` + exitCodes,
		Example: "  lattice policy explain PUSH_BRANCH LABEL_ISSUE\n  lattice policy explain --repo . src/.env\n  lattice policy explain --as skill mail.send",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			p, err := d.openPolicy(c.Context(), repo)
			if err != nil {
				return err
			}
			for _, subject := range list {
				e, err := explain(p, subject, as)
				if err != nil {
					return err
				}
				if err := d.printExplanation(e); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "the repository, whose profiles and policy hold as well")
	cmd.Flags().StringVar(&as, "as", "", "what the names are: action, intent, skill or path")
	return cmd
}

func explain(p policy.Policy, subject, as string) (explanation, error) {
	if as == "" {
		_, intent := policy.Default().Intents[subject]
		switch {
		case intent:
			as = "intent"
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
	default:
		return e, fault.BadInput("bad_input", "%q is not one of action, intent, skill and path", as).WithHint("lattice policy explain --as action NAME")
	}
	return e, nil
}

func (d *deps) printExplanation(e explanation) error {
	if d.json {
		return d.printJSON(e)
	}
	decision := string(e.Decision)
	if e.Path != nil {
		decision = string(e.Path.Decision)
	}
	text := fmt.Sprintf("%s %s: %s", e.Kind, clean(e.Subject), decision)
	if e.Class != "" {
		text += fmt.Sprintf(" (%s)", e.Class)
	}
	for _, part := range limitTexts(e.Verdict) {
		text += ", " + part
	}
	if e.Path != nil && e.Reason != "" {
		text += ": the change " + clean(e.Reason)
	}
	_, err := fmt.Fprintf(d.out, "%s\n  rule: %s\n", text, clean(e.Rule.String()))
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
	return parts
}

func newPolicyShowCmd(d *deps) *cobra.Command {
	var repo string
	var standard bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the rules that hold, or the default table",
		Long:    "Print the decision about each action and kind of intent with the rule that made it, and the rules about files in the order in\nwhich they are tried. --default prints the default table as a policy file.\n" + exitCodes,
		Example: "  lattice policy show --repo .\n  lattice policy show --default > policy.toml",
		Args:    args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if standard {
				_, err := d.out.Write(policy.DefaultText())
				return err
			}
			p, err := d.openPolicy(c.Context(), repo)
			if err != nil {
				return err
			}
			return d.printPolicy(p)
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "the repository, whose profiles and policy hold as well")
	cmd.Flags().BoolVar(&standard, "default", false, "print the default table")
	cmd.MarkFlagsMutuallyExclusive("repo", "default")
	return cmd
}

func (d *deps) printPolicy(p policy.Policy) error {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, kind := range []string{"action", "intent"} {
		for _, name := range p.Names(kind) {
			e, err := explain(p, name, kind)
			if err != nil {
				return err
			}
			if d.json {
				if err := d.printJSON(e); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", kind, clean(name), e.Decision, e.Class, clean(e.Rule.String()), strings.Join(limitTexts(e.Verdict), ", "))
		}
	}
	for _, r := range p.PathRules() {
		if d.json {
			if err := d.printJSON(map[string]any{"kind": "path", "decision": r.Decision, "rule": r.Rule, "match": r.Match, "why": r.Why}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "path\t%s\t%s\t\t%s\t%s\n", clean(r.Name), r.Decision, clean(r.Rule.String()), clean(shorten(strings.Join(r.Match, " "), 60)))
	}
	return w.Flush()
}

// shorten cuts a text that is longer than n bytes.
func shorten(text string, n int) string {
	if len(text) > n {
		return text[:n] + " …"
	}
	return text
}

func newPolicyCheckCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file",
		Long: `Check a policy file and print all problems with their lines. A file below a folder .lattice is checked as the policy of a
repository, which has no profiles and no rules about skills.

Exit codes: 0 valid, 2 not valid, 3 there is no such file.`,
		Example: "  lattice policy check .lattice/policy.toml",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, list []string) error {
			text, err := readBounded(list[0])
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
			if _, err := parsePolicy(list[0], text, filepath.Base(filepath.Dir(path)) == ".lattice"); err != nil {
				return err
			}
			if d.json {
				return d.printJSON(map[string]any{"ok": true, "file": list[0]})
			}
			_, err = fmt.Fprintf(d.out, "%s is valid\n", list[0])
			return err
		},
	}
}
