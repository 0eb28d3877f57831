package policy

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/budget"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	const run = string(budget.Run)
	tests := map[string]struct {
		server, repository string
		name               string
		want               budget.Amount
		rule               string // of the money
	}{
		"none by default":           {name: run},
		"the default estimate":      {name: estimateName, want: budget.Amount{MicroUSD: 1_000_000, Tokens: 200_000, Millis: 1_800_000}, rule: "default: budgets.estimate.usd"},
		"an estimate can be 0":      {server: "budgets.estimate.usd = 0", name: estimateName, want: budget.Amount{Tokens: 200_000, Millis: 1_800_000}, rule: "server:1: budgets.estimate.usd"},
		"server":                    {server: "\n[budgets.run]\nusd = 2.5\ntime = '1m'", name: run, want: budget.Amount{MicroUSD: 2_500_000, Millis: 60_000}, rule: "server:3: budgets.run.usd"},
		"repository lowers":         {server: "budgets.run.usd = 2", repository: "budgets.run.usd = 1", name: run, want: budget.Amount{MicroUSD: 1_000_000}, rule: "repository:1: budgets.run.usd"},
		"repository adds":           {repository: "budgets.run.usd = 1", name: run, want: budget.Amount{MicroUSD: 1_000_000}, rule: "repository:1: budgets.run.usd"},
		"repository cannot raise":   {server: "budgets.run.usd = 2", repository: "budgets.run.usd = 3", name: run, want: budget.Amount{MicroUSD: 2_000_000}, rule: "server:1: budgets.run.usd"},
		"an inline estimate of 0":   {server: "\nbudgets.estimate = { usd = 0 }", name: estimateName, want: budget.Amount{Tokens: 200_000, Millis: 1_800_000}, rule: "server:2: budgets.estimate.usd"},
		"an inline table":           {server: "\n[budgets]\nrun = { usd = 2 }", name: run, want: budget.Amount{MicroUSD: 2_000_000}, rule: "server:3: budgets.run.usd"},
		"a profile before the rest": {server: "budgets.run.usd = 2\n[profiles.a]\nrepositories = ['/r']\nbudgets.run.usd = 9", name: run, want: budget.Amount{MicroUSD: 9_000_000}, rule: "server:4: budgets.run.usd"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := New("/r", layer(t, "server", tt.server))
			if tt.repository != "" {
				p = p.Narrow(layer(t, "repository", tt.repository))
			}
			got, rules := p.Budget(tt.name)
			if rule := rules[budget.Money]; got != tt.want || (tt.rule != "" || rule != Rule{}) && rule.String() != tt.rule {
				t.Errorf("Budget = %v by %v, want %v by %q", got, rules, tt.want, tt.rule)
			}
		})
	}
}

func TestBudgetFindings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"budgets.run.usd = -1":         "line 1: budgets.run.usd: -1 is not an amount of US dollars",
		"budgets.run.usd = nan":        "line 1: budgets.run.usd: NaN is not an amount of US dollars",
		"\n[budgets.day]\ntokens = -5": "line 3: budgets.day.tokens: -5 is not a number of tokens",
		"[budgets.run]\ntokens = 0":    "line 2: budgets.run.tokens: a budget is more than 0",
		"[budgets]\nday = { usd = 0 }": "line 2: budgets.day.usd: a budget is more than 0",
		"\nprofiles.a = { repositories = ['/r'], budgets = { run = { tokens = 0 } } }": "line 2: profiles.a.budgets.run.tokens: a budget is more than 0",
		"[budgets.day]\nUSD = 0":        "line 2: budgets.day.usd: a budget is more than 0",
		"[Budgets.day]\ntokens = 0":     "line 2: budgets.day.tokens: a budget is more than 0",
		"[budgets.week]\nusd = 1":       "budgets.week",
		"budgets.run.time = 'tomorrow'": "is not a length of time",
	} {
		_, findings := Parse("policy.toml", []byte(text))
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Text(), want)
		}
		if !found {
			t.Errorf("%s: findings %v, want %q", text, findings, want)
		}
	}
	for _, text := range []string{"budgets.raise.by = ['me']", "budgets.day.usd = 1", "budgets.estimate.usd = 0.01"} {
		l, findings := Parse("policy.toml", []byte(text))
		if len(findings) > 0 || len(CheckRepository(l)) != 1 {
			t.Errorf("%s: findings %v, of a repository %v", text, findings, CheckRepository(l))
		}
	}
}
