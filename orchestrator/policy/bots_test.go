package policy

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
)

func TestBot(t *testing.T) {
	t.Parallel()
	p := New("", layer(t, "server", "bots.names = ['Build-*']\nbots.variables = ['CLAUDECODE']")).Narrow(layer(t, "repository", "bots.names = ['mallory']"))
	for name, tt := range map[string]struct {
		who       audit.Who
		variables []string
		rule      string // "" for a person
	}{
		"person":                  {who: audit.Who{Name: "ann", UID: 1000}},
		"token":                   {who: audit.Who{Name: "token:phone", UID: -1}},
		"account":                 {who: audit.Who{Name: "main:7", UID: -1, Login: "ann"}},
		"the account is a bot's":  {who: audit.Who{Name: "main:7", UID: -1, Login: "ann", Bot: true}, rule: "code host: bot"},
		"name of an app":          {who: audit.Who{Name: "main:7", UID: -1, Login: "renovate[bot]"}, rule: "default: bots.names"},
		"name in capitals":        {who: audit.Who{Name: "main:7", UID: -1, Login: "CI-Bot"}, rule: "default: bots.names"},
		"token of a bot":          {who: audit.Who{Name: "token:ci-bot", UID: -1}, rule: "default: bots.names"},
		"a name of the server":    {who: audit.Who{Name: "build-7", UID: 1001}, rule: "server:1: bots.names"},
		"a name of a repository":  {who: audit.Who{Name: "mallory", UID: 1002}, rule: "repository:1: bots.names"},
		"almost":                  {who: audit.Who{Name: "abbot", UID: 1003}},
		"in a sprite":             {who: audit.Who{Name: "ann", UID: 1000}, variables: []string{"PATH", "LATTICE_SPRITE_ID"}, rule: "default: bots.variables"},
		"started by an agent":     {who: audit.Who{Name: "ann", UID: 1000}, variables: []string{"CLAUDECODE"}, rule: "server:2: bots.variables"},
		"with ordinary variables": {who: audit.Who{Name: "ann", UID: 1000}, variables: []string{"PATH", "LATTICE_HOME"}},
	} {
		reason, rule := p.Bot(tt.who, tt.variables)
		if tt.rule == "" && reason != "" || tt.rule != "" && (reason == "" || rule.String() != tt.rule) {
			t.Errorf("%s: %q by %q, want %q", name, reason, rule, tt.rule)
		}
	}
	if _, findings := Parse("policy.toml", []byte("bots.names = ['[']")); len(findings) != 1 {
		t.Errorf("a pattern that is none: %v", findings)
	}
}
