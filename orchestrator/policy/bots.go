package policy

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
