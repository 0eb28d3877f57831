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

// Models are the models that the settings name, and the keys that the environment has for them. Keys are read when a model
// is asked: a missing one stops only the flows that ask it.
type Models struct {
	Named *lattice.Models // as a run keeps them

	Transport *http.Transport // through the proxy that the environment names
	getenv    func(string) string
}

// Models returns the models of the settings.
func (env *Env) Models() Models {
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
	return Models{Named: all, Transport: newModelTransport(env), getenv: env.Getenv}
}

// Client returns a client of the named models.
func (m Models) Client() (*llm.Client, error) { return m.newClient(*m.Named, noKey) }

// noKey returns no key: no client of the leader has sent one.
func noKey(string) string { return "" }

// WarnOfChangedModels prints the classes of a run whose models the settings have changed since it started.
func WarnOfChangedModels(env *Env, v api.RunView) {
	if v.StartedWith == nil || v.Status.Ended() {
		return
	}
	now, changed := env.Models().Named.Digests(), []string{}
	for _, name := range slices.Sorted(maps.Keys(v.StartedWith.Models)) {
		if digest, ok := now[name]; ok && digest != v.StartedWith.Models[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		fmt.Fprintf(env.Err, "lattice: warning: the settings of %s have changed since %s started; the run keeps its old ones, and lattice rewind or fork uses the new ones\n", strings.Join(changed, ", "), v.RunID)
	}
}

// AddTo adds the models, and the keys that are set here, to the options of a run.
func (m Models) AddTo(o api.Options) api.Options {
	o.Models = m.Named
	o.ModelKeys = m.readKeys(m.Named.KeyEnvs())
	return o
}

// readKeys returns the values of the named variables that are set here.
func (m Models) readKeys(names []string) map[string]string {
	keys := map[string]string{}
	for _, name := range names {
		if value := m.getenv(name); value != "" {
			keys[name] = value
		}
	}
	return keys
}

// ClientOf returns a client of the models that a run was started with. sent returns the value of a variable as a client of the
// leader sent it, "" where none did.
func (m Models) ClientOf(named lattice.Models, sent func(name string) string) (drive.Models, error) {
	return m.newClient(named, sent)
}

func (m Models) newClient(named lattice.Models, sent func(name string) string) (*llm.Client, error) {
	o := llm.Options{Transport: m.Transport, PerMinute: named.PerMinute, Order: named.Order}
	for _, name := range slices.Sorted(maps.Keys(named.Classes)) {
		class := named.Classes[name]
		o.Classes = append(o.Classes, llm.Class{
			Name: name, Provider: llm.Provider(class.Provider), Model: class.Model, BaseURL: class.BaseURL, Structured: llm.Structured(class.Structured),
			Key: func() (string, error) { return m.findKey(class, sent) }, KeyFrom: cmp.Or(class.KeyEnv, class.KeyFile), NoTemperature: class.NoTemperature,
			InputUSD: class.InputUSD, OutputUSD: class.OutputUSD, Timeout: time.Duration(class.TimeoutS * float64(time.Second)),
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
	models := env.Models()
	for class, m := range models.Named.Classes {
		if key, err := models.findKey(m, noKey); err == nil && key != "" {
			out["the key of model "+class] = key
		}
	}
	for name := range env.Settings.Forges {
		if token := env.CodeHosts().lastToken(name); token != "" {
			out["the token of the code host "+name] = token
		}
	}
	if u, err := url.Parse(env.StoreAddress()); err == nil {
		if password, set := u.User.Password(); set {
			out["the password of the store"] = password
		}
	}
	if env.spritesToken != "" {
		out["the token of the Sprites API"] = env.spritesToken
	}
	return out
}

// newModelTransport returns the transport to models, through the proxy that the environment names.
func newModelTransport(env *Env) *http.Transport {
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

// findKey returns the credential for a model; "" for one that wants none.
func (m Models) findKey(class lattice.ModelClass, sent func(name string) string) (string, error) {
	switch {
	case class.KeyEnv != "":
		key := cmp.Or(sent(class.KeyEnv), m.getenv(class.KeyEnv))
		if key == "" {
			return "", fmt.Errorf("%s is not set in the leader's environment; export %s=… and try again", class.KeyEnv, class.KeyEnv)
		}
		return key, nil
	case class.KeyFile != "":
		key, err := readToken(class.KeyFile)
		if p, ok := errors.AsType[*fault.Error](err); ok {
			err = fmt.Errorf("%s; %s", p.Fault.Message, p.Fault.Hint)
		}
		return key, err
	}
	return "", nil
}

// ModelsHelp is the part about models of the help of lattice run and similar commands.
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
