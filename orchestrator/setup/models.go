package setup

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/llm"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Models asks the models of the settings. Keys are looked up when they are needed, so that one that is missing stops
// nobody who asks no models.
func (env *Env) Models() (*llm.Client, error) {
	return env.llmClient(*env.ModelSettings(), func(string) string { return "" })
}

// ModelsOf is models for the classes that a run was started with.
func (env *Env) ModelsOf(m lattice.Models, key func(name string) string) (drive.Models, error) {
	return env.llmClient(m, key)
}

// ModelSettings are the models of the settings, as a run keeps them.
func (env *Env) ModelSettings() *lattice.Models {
	all := &lattice.Models{Classes: map[string]lattice.ModelClass{}, Order: env.Settings.LLM.Order, PerMinute: env.Settings.LLM.RequestsPerMinute}
	for name, m := range env.Settings.Models {
		file := m.KeyFile
		if file != "" {
			file = env.Expand(file)
		}
		all.Classes[name] = lattice.ModelClass{
			Provider: string(m.Provider), Model: m.Model, BaseURL: m.BaseURL, KeyEnv: m.KeyEnv, KeyFile: file, Structured: string(m.Structured),
			NoTemperature: m.NoTemperature, InputUSD: m.InputUSD, OutputUSD: m.OutputUSD, TimeoutS: time.Duration(m.Timeout).Seconds(),
		}
	}
	return all
}

// WarnOfChangedModels says which models of a run are not what the settings name now.
func WarnOfChangedModels(env *Env, v api.RunView) {
	if v.StartedWith == nil || v.Status.Ended() {
		return
	}
	now, changed := env.ModelSettings().Digests(), []string{}
	for _, name := range slices.Sorted(maps.Keys(v.StartedWith.Models)) {
		if digest, ok := now[name]; ok && digest != v.StartedWith.Models[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		fmt.Fprintf(env.Err, "lattice: warning: the settings have changed %s since %s started; it goes on with what it was started with, and lattice rewind or fork asks the models of now\n", strings.Join(changed, ", "), v.RunID)
	}
}

// AskingModels adds to the options of a run which models it asks.
func (env *Env) AskingModels(o api.Options) api.Options {
	o.Models = env.ModelSettings()
	o.ModelKeys = env.modelKeys(o.Models.KeyEnvs())
	return o
}

// modelKeys are values of the named variables that are set here.
func (env *Env) modelKeys(names []string) map[string]string {
	keys := map[string]string{}
	for _, name := range names {
		if value := env.Getenv(name); value != "" {
			keys[name] = value
		}
	}
	return keys
}

// llmClient asks models. key is the value of a variable as a client of the leader sent it, "" where none did.
func (env *Env) llmClient(m lattice.Models, key func(name string) string) (*llm.Client, error) {
	o := llm.Options{Transport: env.ModelTransport(), PerMinute: m.PerMinute, Order: m.Order}
	for _, name := range slices.Sorted(maps.Keys(m.Classes)) {
		m := m.Classes[name]
		o.Classes = append(o.Classes, llm.Class{
			Name: name, Provider: llm.Provider(m.Provider), Model: m.Model, BaseURL: m.BaseURL, Structured: llm.Structured(m.Structured),
			Key: func() (string, error) { return env.modelKey(m, key) }, KeyFrom: cmp.Or(m.KeyEnv, m.KeyFile), NoTemperature: m.NoTemperature,
			InputUSD: m.InputUSD, OutputUSD: m.OutputUSD, Timeout: time.Duration(m.TimeoutS * float64(time.Second)),
		})
	}
	client, err := llm.New(o)
	if err != nil {
		return nil, fault.BadInput("models_invalid", "%v", err).WithHint("correct [models] in the settings")
	}
	return client, nil
}

// Credentials are the values that this process authenticates with. One that cannot be read now is not used now either.
func (env *Env) Credentials() map[string]string {
	out := map[string]string{}
	for class, m := range env.ModelSettings().Classes {
		if key, err := env.modelKey(m, func(string) string { return "" }); err == nil && key != "" {
			out["the key of model "+class] = key
		}
	}
	if env.spritesToken != "" {
		out["the token of the Sprites API"] = env.spritesToken
	}
	return out
}

// ModelTransport speaks to models, through the proxy that the environment names.
func (env *Env) ModelTransport() *http.Transport {
	proxy := (&httpproxy.Config{HTTPProxy: env.ProxyVar("HTTP_PROXY"), HTTPSProxy: env.ProxyVar("HTTPS_PROXY"), NoProxy: env.ProxyVar("NO_PROXY")}).ProxyFunc()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 256 << 10
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return transport
}

// ProxyVar is a variable that chooses a proxy, whose name is written in either case.
func (env *Env) ProxyVar(name string) string {
	return cmp.Or(env.Getenv(name), env.Getenv(strings.ToLower(name)))
}

// modelKey is the credential for a model; "" for one that wants none.
func (env *Env) modelKey(m lattice.ModelClass, sent func(name string) string) (string, error) {
	switch {
	case m.KeyEnv != "":
		key := cmp.Or(sent(m.KeyEnv), env.Getenv(m.KeyEnv))
		if key == "" {
			return "", fmt.Errorf("%s is not set where lattice leads; export %s=… and try again", m.KeyEnv, m.KeyEnv)
		}
		return key, nil
	case m.KeyFile != "":
		key, err := readToken(m.KeyFile)
		var p *fault.Error
		if errors.As(err, &p) {
			err = fmt.Errorf("%s; %s", p.Fault.Message, p.Fault.Hint)
		}
		return key, err
	}
	return "", nil
}

// ModelsHelp is what lattice run and its like say about models.
const ModelsHelp = `
A flow with LLM nodes asks models by class, such as SMALL_EXEC; the settings say which model that is (lattice doctor shows
what they name, and what the keys mean is in manifests/schema/config.schema.json):
  [models.SMALL_EXEC]
  provider = "openai"                      # everything that offers chat completions; or anthropic
  base_url = "http://127.0.0.1:8080/v1"    # a local server; by default the vendor's own address
  model = "qwen3-4b"
  key_env = "MY_KEY"                       # the variable that holds the key, or key_file; not for local servers
  input_usd = 0.1                          # prices of a million tokens, for flows with max_cost_usd
  output_usd = 0.4
A run whose model could not be asked exits with 5 (no connection, a server in trouble), 4 (the key is refused), 3 (no such
model there), 6 (rate limit) or 124 (no answer in time), and says which setting or variable to look at.
`
