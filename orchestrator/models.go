package main

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/spritekit/lattice/orchestrator/doctor"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/llm"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// models asks the models of the settings. Keys are looked up when they are needed, so that one that is missing stops
// nobody who asks no models.
func (d *deps) models() (*llm.Client, error) {
	return d.llmClient(*d.modelSettings(), func(string) string { return "" })
}

// modelsOf is models for the classes that a run was started with.
func (d *deps) modelsOf(m lattice.Models, key func(name string) string) (leader.Models, error) {
	return d.llmClient(m, key)
}

// modelSettings are the models of the settings, as a run keeps them.
func (d *deps) modelSettings() *lattice.Models {
	all := &lattice.Models{Classes: map[string]lattice.ModelClass{}, Order: d.settings.LLM.Order, PerMinute: d.settings.LLM.RequestsPerMinute}
	for name, m := range d.settings.Models {
		file := m.KeyFile
		if file != "" {
			file = d.expand(file)
		}
		all.Classes[name] = lattice.ModelClass{
			Provider: string(m.Provider), Model: m.Model, BaseURL: m.BaseURL, KeyEnv: m.KeyEnv, KeyFile: file, Structured: string(m.Structured),
			NoTemperature: m.NoTemperature, InputUSD: m.InputUSD, OutputUSD: m.OutputUSD, TimeoutS: time.Duration(m.Timeout).Seconds(),
		}
	}
	return all
}

// sayModels says which models of a run are not what the settings name now.
func (d *deps) sayModels(v api.RunView) {
	if v.StartedWith == nil || v.Status.Ended() {
		return
	}
	now, changed := d.modelSettings().Digests(), []string{}
	for _, name := range slices.Sorted(maps.Keys(v.StartedWith.Models)) {
		if digest, ok := now[name]; ok && digest != v.StartedWith.Models[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		fmt.Fprintf(d.err, "lattice: warning: the settings have changed %s since %s started; it goes on with what it was started with, and lattice rewind or fork asks the models of now\n", strings.Join(changed, ", "), v.RunID)
	}
}

// askingModels adds to the options of a run which models it asks.
func (d *deps) askingModels(o api.Options) api.Options {
	o.Models = d.modelSettings()
	o.ModelKeys = d.modelKeys(o.Models.KeyEnvs())
	return o
}

// modelKeys are values of the named variables that are set here.
func (d *deps) modelKeys(names []string) map[string]string {
	keys := map[string]string{}
	for _, name := range names {
		if value := d.getenv(name); value != "" {
			keys[name] = value
		}
	}
	return keys
}

// llmClient asks models. key is the value of a variable as a client of the leader sent it, "" where none did.
func (d *deps) llmClient(m lattice.Models, key func(name string) string) (*llm.Client, error) {
	o := llm.Options{Transport: d.modelTransport(), PerMinute: m.PerMinute, Order: m.Order}
	for _, name := range slices.Sorted(maps.Keys(m.Classes)) {
		m := m.Classes[name]
		o.Classes = append(o.Classes, llm.Class{
			Name: name, Provider: llm.Provider(m.Provider), Model: m.Model, BaseURL: m.BaseURL, Structured: llm.Structured(m.Structured),
			Key: func() (string, error) { return d.modelKey(m, key) }, KeyFrom: cmp.Or(m.KeyEnv, m.KeyFile), NoTemperature: m.NoTemperature,
			InputUSD: m.InputUSD, OutputUSD: m.OutputUSD, Timeout: time.Duration(m.TimeoutS * float64(time.Second)),
		})
	}
	client, err := llm.New(o)
	if err != nil {
		return nil, fault.BadInput("models_invalid", "%v", err).WithHint("correct [models] in the settings")
	}
	return client, nil
}

// credentials are the values that this process authenticates with. One that cannot be read now is not used now either.
func (d *deps) credentials() map[string]string {
	out := map[string]string{}
	for class, m := range d.modelSettings().Classes {
		if key, err := d.modelKey(m, func(string) string { return "" }); err == nil && key != "" {
			out["the key of model "+class] = key
		}
	}
	if d.spritesToken != "" {
		out["the token of the Sprites API"] = d.spritesToken
	}
	return out
}

// modelTransport speaks to models, through the proxy that the environment names.
func (d *deps) modelTransport() *http.Transport {
	env := func(name string) string {
		if v := d.getenv(name); v != "" {
			return v
		}
		return d.getenv(strings.ToLower(name))
	}
	proxy := (&httpproxy.Config{HTTPProxy: env("HTTP_PROXY"), HTTPSProxy: env("HTTPS_PROXY"), NoProxy: env("NO_PROXY")}).ProxyFunc()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 256 << 10
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return transport
}

// modelKey is the credential for a model; "" for one that wants none.
func (d *deps) modelKey(m lattice.ModelClass, sent func(name string) string) (string, error) {
	switch {
	case m.KeyEnv != "":
		key := cmp.Or(sent(m.KeyEnv), d.getenv(m.KeyEnv))
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

// failedExit is the exit code for a run that failed: 1, or what kept a model from being asked.
func failedExit(e *api.RunError) int {
	var data struct {
		Code string `json:"code"`
	}
	if e == nil || !slices.Contains([]string{ir.FailProvider, ir.FailRateLimited, ir.FailTimeout}, e.Kind) || json.Unmarshal(e.Data, &data) != nil {
		return protocol.ExitFailed
	}
	switch data.Code {
	case lattice.ModelUnreachable:
		return protocol.ExitNetwork
	case lattice.ModelDenied:
		return protocol.ExitDenied
	case lattice.ModelNotFound:
		return protocol.ExitNotFound
	case lattice.ModelRateLimited:
		return protocol.ExitBusy
	case lattice.ModelTimeout:
		return protocol.ExitTimeout
	}
	return protocol.ExitFailed
}

// lookAtModels says which model classes the settings name, and whether they could be asked. Nothing is sent.
func (d *deps) lookAtModels(context.Context) []doctor.Check {
	if len(d.settings.Models) == 0 {
		return []doctor.Check{check("models", doctor.OK, "", "none; flows that ask models need them in the settings, as [models.SMALL_EXEC]")}
	}
	client, err := d.models()
	if err != nil {
		return []doctor.Check{check("models", doctor.Fail, "correct the settings", "%v", err)}
	}
	var checks []doctor.Check
	for _, name := range slices.Sorted(maps.Keys(d.settings.Models)) {
		m := d.settings.Models[name]
		what := fmt.Sprintf("%s is %s of %s", name, m.Model, m.Provider)
		if m.BaseURL != "" {
			what += " at " + m.BaseURL
		}
		switch err := client.Ready(name, false); {
		case err != nil:
			checks = append(checks, check("models", doctor.Warn, "see lattice run --help, on models", "%v", err))
		case m.InputUSD == nil || m.OutputUSD == nil:
			checks = append(checks, check("models", doctor.OK, "", "%s, without prices: flows with max_cost_usd cannot ask it", what))
		default:
			checks = append(checks, check("models", doctor.OK, "", "%s", what))
		}
	}
	return checks
}

// modelsHelp is what lattice run and its like say about models.
const modelsHelp = `
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
