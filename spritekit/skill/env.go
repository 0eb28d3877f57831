package skill

import (
	"slices"
	"strings"
)

// DefaultWorkspace and DefaultSocket are where a sprite has its workspace and its api socket.
const (
	DefaultWorkspace = "/workspace"
	DefaultSocket    = "/.sprite/api.sock"
)

// Env is what a call learns from the environment (DESIGN 12). Everything is optional.
type Env struct {
	SpriteID       string
	WorkItemID     string // default the run's id
	RunID          string
	CallID         string // "" gives a fresh id and replays nothing
	ParentCallID   string // the call whose program this process is; "" for none
	AgentCallID    string // the call of agent.run whose agent makes this one; "" for none (nested.go)
	IdempotencyKey string
	Workspace      string
	State          string // where .lattice lies instead of in the workspace; "" for there (LATTICE_STATE)
	Socket         string // "" means that there is none to ask
	Grants         Grants
	Inputs         map[string]string // LATTICE_INPUT_<NAME> by NAME
	Child          []string          // what child processes may see
	// MaxResult is the largest result line, in bytes, before its bulk is moved to a file; 0 is protocol.SpillAt, which is
	// also the most.
	MaxResult int
}

// ParseEnv reads an environment as os.Environ gives it.
func ParseEnv(environ []string) Env {
	env := Env{Workspace: DefaultWorkspace, Socket: DefaultSocket, Grants: ShellGrants(), Inputs: map[string]string{}}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if input, ok := strings.CutPrefix(name, "LATTICE_INPUT_"); ok {
			env.Inputs[input] = value
			continue
		}
		switch name {
		case "LATTICE_SPRITE_ID":
			env.SpriteID = value
		case "LATTICE_WORK_ITEM_ID":
			env.WorkItemID = value
		case "LATTICE_RUN_ID":
			env.RunID = value
		case "LATTICE_CALL_ID":
			env.CallID = value
		case "LATTICE_PARENT_CALL_ID":
			env.ParentCallID = value
		case "LATTICE_AGENT_CALL_ID":
			env.AgentCallID = value
		case "LATTICE_IDEMPOTENCY_KEY":
			env.IdempotencyKey = value
		case "LATTICE_WORKSPACE":
			if value != "" {
				env.Workspace = value
			}
		case "LATTICE_STATE":
			env.State = value
		case "LATTICE_SOCKET":
			env.Socket = value
		case "LATTICE_PERMISSIONS":
			env.Grants = ParseGrants(value)
		}
	}
	if env.WorkItemID == "" {
		env.WorkItemID = env.RunID
	}
	// A skill that a child calls is a call of its own: it must not answer for this one.
	env.Child = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "LATTICE_CALL_ID" || name == "LATTICE_IDEMPOTENCY_KEY" || strings.HasPrefix(name, "LATTICE_INPUT_")
	})
	return env
}
