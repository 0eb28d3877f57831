package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/audit"
)

// Bots says which callers are programs. An approval of a program never counts. The rules of all layers hold together.
type Bots struct {
	// Names are patterns of the names of users, tokens and accounts at code hosts, without regard to case.
	Names []string `toml:"names" json:"names,omitempty"`
	// Variables are names of environment variables. A command that has one of them was started by an agent.
	Variables []string `toml:"variables" json:"variables,omitempty"`
}

// The names of the rules about programs.
const (
	botNames     = "bots.names"
	botVariables = "bots.variables"
)

// Bot returns why the caller is a program and the rule that says so; the reason is "" for a person. variables are the names of the
// caller's environment variables, as far as they are known.
func (p Policy) Bot(who audit.Who, variables []string) (reason string, rule Rule) {
	if who.Bot {
		return fmt.Sprintf("%s is a bot at its code host", orElse(who.Login, who.Name)), Rule{Source: "code host", Name: "bot"}
	}
	for _, l := range p.layers() {
		for _, name := range []string{who.Name, strings.TrimPrefix(who.Name, "token:"), who.Login} {
			if name != "" && matchesAny(l.Bots.Names, strings.ToLower(name)) {
				return fmt.Sprintf("%s is the name of a bot", name), l.rule(botNames)
			}
		}
		for _, v := range l.Bots.Variables {
			if slices.Contains(variables, v) {
				return fmt.Sprintf("an agent started this command: its environment has %s", v), l.rule(botVariables)
			}
		}
	}
	return "", Rule{}
}
