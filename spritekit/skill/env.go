package skill

import (
	"cmp"
	"slices"
	"strings"
)

// Default paths of the workspace and the api socket in a sprite.
const (
	DefaultWorkspace = "/workspace"
	DefaultSocket    = "/.sprite/api.sock"
)

// Env holds the settings of a call from the environment (DESIGN 12). All of them are optional.
type Env struct {
	SpriteID       string
	WorkItemID     string // default the run's id
	RunID          string
	CallID         string // "" gives a fresh id and replays nothing
	ParentCallID   string // the call whose program this process is; "" for none
	AgentCallID    string // the call whose program, such as an agent, makes this one; "" for none (nested.go)
	IdempotencyKey string
	Workspace      string
	State          string // folder of .lattice (LATTICE_STATE); "" for the workspace
	Socket         string // "" if there is none
	Grants         Grants
	Inputs         map[string]string // LATTICE_INPUT_<NAME> by NAME
	StdinBytes     string            // how long the input on stdin is (LATTICE_STDIN_BYTES); "" if the caller does not say
	Child          []string          // environment of child processes
	// MaxResult is the size in bytes above which the data of a result line is moved to a file; 0 means protocol.SpillAt,
	// which is also the maximum.
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
		case "LATTICE_STDIN_BYTES":
			env.StdinBytes = value
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
	env.WorkItemID = cmp.Or(env.WorkItemID, env.RunID)
	// A skill that a child process calls is a separate call: it must not have the id and inputs of this one.
	env.Child = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "LATTICE_CALL_ID" || name == "LATTICE_IDEMPOTENCY_KEY" || name == "LATTICE_STDIN_BYTES" || strings.HasPrefix(name, "LATTICE_INPUT_")
	})
	return env
}
