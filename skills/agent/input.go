package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	agentCommand   = "command"
	modeBypass     = "bypass"
	modeAsk        = "ask"
	defaultTimeout = time.Hour
	defaultIdle    = 30 * time.Minute // of agents that print events
	maxTimeout     = 7 * 24 * time.Hour
	maxPrompt      = 4 << 20
)

type input struct {
	Agent        string          `json:"agent"`
	Adapter      json.RawMessage `json:"adapter"`
	Command      json.RawMessage `json:"command"`
	Prompt       string          `json:"prompt"`
	PromptFile   string          `json:"prompt_file"`
	SystemAppend string          `json:"system_append"`
	Model        string          `json:"model"`
	Cwd          string          `json:"cwd"`
	Session      struct {
		Mode string `json:"mode"`
		ID   string `json:"id"`
	} `json:"session"`
	TimeoutS    float64       `json:"timeout_s"`
	IdleS       float64       `json:"idle_s"`
	UsageLimit  string        `json:"usage_limit"`
	Limits      tally.Limits  `json:"limits"`
	Prices      *tally.Prices `json:"prices"`
	Permissions struct {
		Mode  string   `json:"mode"`
		Allow []string `json:"allow"`
		Deny  []string `json:"deny"`
	} `json:"permissions"`
	MCP struct {
		Spritekit *bool                `json:"spritekit"`
		Servers   map[string]mcpServer `json:"servers"`
	} `json:"mcp"`
	Tools        []string        `json:"tools"`
	OutputSchema json.RawMessage `json:"output_schema"`
	Instructions string          `json:"instructions"`
	Skills       []string        `json:"skills"`
	Packs        []string        `json:"packs"`
	Config       map[string]any  `json:"config"`
	EnvAllow     []string        `json:"env_allow"`
	ExtraArgs    []string        `json:"extra_args"`
	ReadOnly     []string        `json:"read_only"`
	PassThrough  bool            `json:"pass_through_events"`
}

// mcpServer describes how an MCP server is started.
type mcpServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// validate refuses an input that the agent cannot take, and sets the default limits.
func (in *input) validate(a adapter.Adapter) error {
	l := &in.Limits
	l.WallS = cmp.Or(l.WallS, in.TimeoutS)
	if l.WallS == 0 {
		l.WallS = defaultTimeout.Seconds()
	}
	if l.WallS <= 0 || l.WallS > maxTimeout.Seconds() {
		return skill.BadInput("/timeout_s", "is not between 0 and %v seconds", maxTimeout.Seconds())
	}
	l.IdleS = cmp.Or(l.IdleS, in.IdleS)
	if l.IdleS < 0 {
		return skill.BadInput("/idle_s", "is negative")
	}
	if l.IdleS == 0 && a.Output != "text" {
		l.IdleS = defaultIdle.Seconds()
	}
	if l.MaxTurns < 0 || l.MaxCostUSD < 0 || l.MaxTokens < 0 {
		return skill.BadInput("/limits", "has a negative member; 0 or none means no limit")
	}
	if a.Output == "text" && (l.MaxTurns > 0 || l.MaxCostUSD > 0 || l.MaxTokens > 0) {
		return fault.Unsupported("unsupported", "%s does not report how many turns, tokens or dollars it uses", a.Name).
			WithHint("use limits.wall_s and limits.idle_s, or an adapter with events")
	}
	switch in.UsageLimit {
	case "", "wait", usageLimitFails:
	default:
		return skill.BadInput("/usage_limit", "is %q, not wait or fail", in.UsageLimit)
	}
	switch in.Session.Mode {
	case "", modeNew:
		if in.Session.ID != "" {
			return skill.BadInput("/session/id", "is for modes resume and fork")
		}
		in.Session.Mode = modeNew
	case modeResume, modeFork:
		if in.Session.ID == "" {
			return skill.BadInput("/session/id", "is required with mode %s", in.Session.Mode)
		}
		if !a.Resumes {
			return fault.Unsupported("unsupported", "%s has no sessions that could be resumed", a.Name).WithHint("leave session out")
		}
	default:
		return skill.BadInput("/session/mode", "is %q, not new, resume or fork", in.Session.Mode)
	}
	if mode := &in.Permissions.Mode; *mode == "" {
		*mode = modeBypass
	} else if !slices.Contains(a.Modes, *mode) {
		return fault.Unsupported("unsupported", "%s does not know permissions.mode %q", a.Name, *mode).WithHint("it knows %v; none means bypass, as the sprite is the sandbox", a.Modes)
	}
	for _, pattern := range slices.Concat(in.Permissions.Allow, in.Permissions.Deny) {
		if _, err := path.Match(pattern, ""); err != nil && a.Output == adapter.OutputACP {
			return skill.BadInput("/permissions", "%.80q is not a pattern of kinds or names of tools, such as edit or mcp_*", pattern)
		}
	}
	if !a.TakesServers() && (len(in.MCP.Servers) > 0 || in.MCP.Spritekit != nil && *in.MCP.Spritekit) {
		return fault.Unsupported("unsupported", "%s cannot be given MCP servers", a.Name).WithHint("it may call /skills/… by itself")
	}
	for name, s := range in.MCP.Servers {
		if !proc.IsVariable(name) || s.Command == "" || name == ownServer {
			return skill.BadInput("/mcp/servers/"+name, "is not a server: it needs a name of letters, digits and _ other than %s, and a command", ownServer)
		}
	}
	if len(in.Config) > 0 && !a.HasMain() {
		return fault.Unsupported("unsupported", "%s has no configuration to merge config into", a.Name)
	}
	if p := in.Prices; p != nil && !p.Valid() {
		return skill.BadInput("/prices", "has a member that is not between 0 and %d", tally.MaxUSD)
	}
	if len(a.Programs) == 0 && (len(in.Command) == 0 || string(in.Command) == "null") {
		return skill.BadInput("/command", "is required with agent %s", a.Name)
	}
	return nil
}

// readPrompt returns the prompt, which the input holds or names a file for.
func readPrompt(c *skill.Call, in input) (string, error) {
	switch {
	case in.Prompt != "" && in.PromptFile != "":
		return "", skill.BadInput("/prompt_file", "cannot be used together with prompt")
	case in.PromptFile != "":
		data, err := c.Root.ReadFile(in.PromptFile, maxPrompt)
		return string(data), err
	case len(in.Prompt) > maxPrompt:
		return "", skill.BadInput("/prompt", "is larger than %d bytes", maxPrompt)
	}
	return in.Prompt, nil
}

// answerPrompt returns the prompt with which a session continues after its question was answered.
func answerPrompt(q skill.Question, inputs json.RawMessage) string {
	return fmt.Sprintf("Your call of %s (%s) was answered:\n\n```json\n%s\n```\n\nGo on with your task. If you need it as the skill's result, call %s again with the same input.\n",
		q.Skill, q.Waiting.Reason, inputs, q.Skill)
}

const (
	usageLimitFails = "fail" // of the input usage_limit

	// If the agent does not say when the limit ends, the pauses double, up to maxGuessed of them.
	firstGuess = time.Minute
	maxGuessed = 6

	longestPause = 31 * 24 * time.Hour // a time beyond is not believed
	codeLimited  = "agent_rate_limited"
)
