package lattice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// DoModel asks a model (Command.Model) and reports ModelAnswered.
const DoModel CommandKind = "model"

// ModelRequest is one question to a model: the prompt of one node and nothing of the program around it. Equal requests
// have equal digests, on every machine.
type ModelRequest struct {
	Class    string `json:"class"`    // of models, such as SMALL_EXEC; the settings say which model that is
	Try      int    `json:"try"`      // of the node's visit, from 1
	Template string `json:"template"` // id of the prompt template
	System   string `json:"system"`
	User     string `json:"user"`
	// Schema is the JSON Schema that the answer is held against afterwards, with its name; providers that can are told.
	SchemaName string          `json:"schema_name"`
	Schema     json.RawMessage `json:"schema"`

	MaxOutputTokens int     `json:"max_output_tokens"`
	Temperature     float64 `json:"temperature"`
	Seed            *int    `json:"seed,omitempty"`
	TimeoutS        float64 `json:"timeout_s,omitempty"` // of the whole question; 0 = the class's
	// Trimmed lists the shortened inputs of the node, [{path, unit, before, after}].
	Trimmed json.RawMessage `json:"trimmed,omitempty"`
	// BudgetUSD is the maximum cost of the question, nil for any price: a question that could cost more is not asked.
	BudgetUSD *float64 `json:"budget_usd,omitempty"`

	// Command and Again say which question of the run it is; set by the driver.
	Command string `json:"-"`
	Again   int    `json:"-"`
}

// ModelBound is the most that a request can take.
type ModelBound struct {
	ModelUsage
	Priced bool // else CostUSD is not known
	Time   time.Duration
}

// ModelClass is the model that a class stands for, as the settings say. KeyEnv and KeyFile name where its key is; the key
// itself is nowhere in it.
type ModelClass struct {
	Provider      string   `json:"provider"`
	Model         string   `json:"model"`
	BaseURL       string   `json:"base_url,omitempty"`
	KeyEnv        string   `json:"key_env,omitempty"`
	KeyFile       string   `json:"key_file,omitempty"`
	Structured    string   `json:"structured,omitempty"`
	NoTemperature bool     `json:"no_temperature,omitempty"`
	InputUSD      *float64 `json:"input_usd,omitempty"`
	OutputUSD     *float64 `json:"output_usd,omitempty"`
	TimeoutS      float64  `json:"timeout_s,omitempty"`
}

// Digest is the sha256 of everything that the class says.
func (c ModelClass) Digest() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "unmarshalable:" + err.Error() // a price that is not a number
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Models are the models that flows may ask, by class, with the settings for all of them.
type Models struct {
	Classes   map[string]ModelClass `json:"classes,omitempty"`
	Order     []string              `json:"order,omitempty"`      // from the weakest to the strongest
	PerMinute int                   `json:"per_minute,omitempty"` // requests
}

// Only is m with no other classes than those named.
func (m Models) Only(names []string) Models {
	all := m.Classes
	m.Classes = map[string]ModelClass{}
	for _, name := range names {
		if class, ok := all[name]; ok {
			m.Classes[name] = class
		}
	}
	m.Order = slices.DeleteFunc(slices.Clone(m.Order), func(name string) bool { return !slices.Contains(names, name) })
	return m
}

// KeyEnvs names the variables that hold the keys of its classes, sorted.
func (m Models) KeyEnvs() (names []string) {
	for _, c := range m.Classes {
		if c.KeyEnv != "" {
			names = append(names, c.KeyEnv)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Digests are the digests of its classes.
func (m Models) Digests() map[string]string {
	all := map[string]string{}
	for name, c := range m.Classes {
		all[name] = c.Digest()
	}
	return all
}

// Digest is the sha256 of everything that the request says.
func (r ModelRequest) Digest() string {
	text, err := json.Marshal(r)
	if err != nil {
		// The schema is JSON that was parsed before; nothing else here can fail.
		return "unmarshalable:" + err.Error()
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ModelUsage is the usage of answers.
type ModelUsage struct {
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"` // by the prices in the settings, 0 where they name none
	// Estimated says that the provider did not count and that the tokens are the bytes by four.
	Estimated bool `json:"estimated,omitempty"`
}

// Tokens is both kinds together.
func (u ModelUsage) Tokens() int { return u.InputTokens + u.OutputTokens }

// Plus adds up.
func (u ModelUsage) Plus(v ModelUsage) ModelUsage {
	return ModelUsage{
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CostUSD: u.CostUSD + v.CostUSD, Estimated: u.Estimated || v.Estimated,
	}
}

// ModelReply is the outcome of a question: Text, or a failure of one of the kinds of ir (refusal, truncated, rate_limited,
// provider_error, timeout, limit_exceeded). A failed reply may have text and usage, too.
type ModelReply struct {
	Provider string     `json:"provider"`
	Model    string     `json:"model"` // the provider's name of the model that answered, else the requested one
	Text     string     `json:"text"`
	Usage    ModelUsage `json:"usage"`
	Kind     string     `json:"kind,omitempty"`    // failure kind, "" for an answer
	Message  string     `json:"message,omitempty"` // why, for people
	Code     string     `json:"code,omitempty"`    // the cause of a failed question, one of the Model… codes
	Hint     string     `json:"hint,omitempty"`    // the remedy, for people
}

// Codes of questions that failed before there was an answer to judge.
const (
	ModelUnreachable = "model_unreachable"  // no connection, or a server in trouble (5xx, an answer cut off), however often it was asked
	ModelDenied      = "model_denied"       // the key is missing, wrong, or good for other things (401, 403)
	ModelNotFound    = "model_not_found"    // no such model, or no such path (404)
	ModelRateLimited = "model_rate_limited" // 429, however often it was asked
	ModelTimeout     = "model_timeout"      // no answer in the time that it may take
	ModelRefused     = "model_bad_request"  // any other 3xx or 4xx: asked again it would say the same
	ModelGarbage     = "model_bad_answer"   // the answer is malformed or endless
)

// ModelAnswered is the outcome of a question. The journal holds the unchanged answer, and the digest, provider and
// parameters of the question; the prompt follows from the state before.
type ModelAnswered struct {
	CommandID       string          `json:"command_id"`
	Request         string          `json:"request"` // digest
	Class           string          `json:"class"`
	Try             int             `json:"try"`
	Template        string          `json:"template,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Temperature     float64         `json:"temperature,omitempty"`
	Seed            *int            `json:"seed,omitempty"`
	Trimmed         json.RawMessage `json:"trimmed,omitempty"`
	ModelReply
}

// Answered is the fact that a question had this reply.
func (r ModelRequest) Answered(command string, reply ModelReply) ModelAnswered {
	return ModelAnswered{
		CommandID: command, Request: r.Digest(), Class: r.Class, Try: r.Try, Template: r.Template, MaxOutputTokens: r.MaxOutputTokens,
		Temperature: r.Temperature, Seed: r.Seed, Trimmed: r.Trimmed, ModelReply: reply,
	}
}

// ModelAskedAgain says that a question without a known answer is about to be asked once more, after a crash or a leader's
// end: it counts against limits.max_llm_calls like any other.
type ModelAskedAgain struct {
	CommandID string `json:"command_id"`
	Again     int    `json:"again"` // for the how manieth time, from 1
}

func (ModelAnswered) FactType() string   { return "ModelAnswered" }
func (ModelAskedAgain) FactType() string { return "ModelAskedAgain" }

func (u ModelUsage) String() string {
	if u.CostUSD == 0 {
		return fmt.Sprintf("%d tokens", u.Tokens())
	}
	return fmt.Sprintf("%d tokens, $%.4f", u.Tokens(), u.CostUSD)
}
