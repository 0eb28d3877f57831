package settings

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Model is a model under the name of its class, such as SMALL_EXEC: flows name classes, and the settings say which model
// that is here.
//
//	[models.SMALL_EXEC]
//	provider = "openai"
//	base_url = "http://127.0.0.1:8080/v1"
//	model = "qwen3-4b"
//
//	[models.MEDIUM_PLAN]
//	provider = "anthropic"
//	model = "claude-sonnet-5"
//	key_env = "ANTHROPIC_API_KEY"
//	input_usd = 3.0
//	output_usd = 15.0
type Model struct {
	// Provider is how the server is spoken to: openai for everything that offers chat completions, local servers, too.
	Provider Provider `json:"provider"`
	// Model is its name there.
	Model string `json:"model"`
	// BaseURL is the address up to and with the version, such as http://127.0.0.1:8080/v1; by default the vendor's own.
	BaseURL string `json:"base_url,omitempty"`
	// KeyEnv names the environment variable that holds the key.
	KeyEnv string `json:"key_env,omitempty"`
	// KeyFile is the path of a file that holds the key and that no other user may read; ~/ is the home directory.
	KeyFile string `json:"key_file,omitempty"`
	// InputUSD and OutputUSD are the prices of a million tokens; flows with max_cost_usd want them.
	InputUSD  *float64 `json:"input_usd,omitempty"`
	OutputUSD *float64 `json:"output_usd,omitempty"`
	// Structured is the form in which the server gets the schema of an answer. By default json_schema at the vendor's
	// own address and none elsewhere. Answers are held against it anyway.
	Structured Structured `json:"structured,omitempty"`
	// NoTemperature leaves the temperature out, for models that refuse any.
	NoTemperature bool `json:"no_temperature,omitempty"`
	// Timeout bounds one question with all its tries; by default 2m.
	Timeout Duration `json:"timeout,omitempty"`
}

// LLM holds the settings that apply to all model requests together.
type LLM struct {
	// Order lists the classes from the weakest to the strongest: nodes escalate upward only. Classes that it leaves out may
	// stand anywhere.
	Order []string `json:"order,omitempty"`
	// RequestsPerMinute is how many requests of all classes may be made in a minute; by default 120.
	RequestsPerMinute int `json:"requests_per_minute,omitempty"`
}

// Provider names how a server of models is spoken to.
type Provider string

// Providers are the values of Provider.
func Providers() []string { return []string{"openai", "anthropic"} }

// Structured is the way in which a server is given the schema of an answer.
type Structured string

// StructuredModes are the values of Structured.
func StructuredModes() []string { return []string{"json_schema", "json_object", "none"} }

var className = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) })

func checkModels(s Settings) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		found = append(found, checkModel("models."+name, name, s.Models[name])...)
	}
	for i, name := range s.LLM.Order {
		if _, ok := s.Models[name]; !ok {
			found = append(found, Finding{Code: CodeValue, Key: "llm.order", Message: fmt.Sprintf("there is no model class %q", shortenValue(name)), Hint: "known: " + strings.Join(slices.Sorted(maps.Keys(s.Models)), ", ")})
		}
		if slices.Contains(s.LLM.Order[:i], name) {
			found = append(found, Finding{Code: CodeValue, Key: "llm.order", Message: fmt.Sprintf("%s stands in it twice", shortenValue(name))})
		}
	}
	if n := s.LLM.RequestsPerMinute; n < 0 || n > 1e6 {
		found = append(found, Finding{Code: CodeValue, Key: "llm.requests_per_minute", Message: fmt.Sprintf("%d is no rate", n), Hint: "a number from 1 to 1000000"})
	}
	return found
}

func checkModel(at, name string, m Model) (found []Finding) {
	bad := func(code, key, message, hint string) {
		found = append(found, Finding{Code: code, Key: joinKey(at, key), Message: message, Hint: hint})
	}
	if !className().MatchString(name) {
		found = append(found, Finding{Code: CodeValue, Key: at, Message: fmt.Sprintf("%q is no name of a model class", name), Hint: "capitals, digits and _, such as SMALL_EXEC"})
	}
	if !slices.Contains(Providers(), string(m.Provider)) {
		bad(CodeValue, "provider", fmt.Sprintf("there is no provider %q", m.Provider), "one of "+strings.Join(Providers(), ", ")+"; local servers are openai with a base_url")
	}
	if m.Model == "" {
		bad(CodeValue, "model", "it is missing", "the model's name, as the provider has it")
	}
	if m.Structured != "" && !slices.Contains(StructuredModes(), string(m.Structured)) {
		bad(CodeValue, "structured", fmt.Sprintf("%q is not known", m.Structured), "one of "+strings.Join(StructuredModes(), ", "))
	}
	for key, price := range map[string]*float64{"input_usd": m.InputUSD, "output_usd": m.OutputUSD} {
		if price != nil && !(*price >= 0 && *price <= 1e6) {
			bad(CodeValue, key, "it is no price of a million tokens", "US dollars, 0 or more")
		}
	}
	const elsewhere = "key_env names an environment variable, key_file a file that only you may read"
	switch {
	case m.KeyEnv != "" && (!variable().MatchString(m.KeyEnv) || len(m.KeyEnv) >= 20 && tokenLike().MatchString(m.KeyEnv)):
		bad(CodeSecret, "key_env", "it looks like a key, not like the name of a variable", elsewhere)
	case m.KeyFile != "" && !strings.HasPrefix(m.KeyFile, "/") && !strings.HasPrefix(m.KeyFile, "~/"):
		bad(CodeValue, "key_file", "it is no absolute path", "begin it with / or ~/; it names a file and holds no key")
	case m.KeyEnv != "" && m.KeyFile != "":
		bad(CodeValue, "key_file", "key_env and key_file are both set", "keep one of them")
	}
	if m.BaseURL == "" {
		return found
	}
	u, err := url.Parse(m.BaseURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "":
		bad(CodeValue, "base_url", "it is no http or https URL", "such as http://127.0.0.1:8080/v1")
	case u.User != nil:
		bad(CodeSecret, "base_url", "the URL holds credentials", "leave them out and set key_env or key_file")
	case u.Scheme == "http" && (m.KeyEnv != "" || m.KeyFile != "") && !isLoopback(u.Hostname()):
		bad(CodeValue, "base_url", "the key would travel in the open", "use https, or leave the key out")
	}
	return found
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
