package leader

import (
	"cmp"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/leader/credentials"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/modelroute"
)

// ModelProvider is a provider of the settings. Base is "" for the provider's own address. Key is called for each request;
// sent returns the value of a variable that a client of the leader sent.
type ModelProvider struct {
	Name, Base string
	Key        func(sent func(name string) string) (string, error)
}

// agents gives the agents of runs their variables and routes to their models. It keeps the
// secrets that redaction looks for, by run.
type agents struct {
	home    home.Home
	log     zerolog.Logger
	records *history.Records
	values  *drive.Values
	drives  interface {
		IsDriven(run string) (bool, error)
	}
	models      *drive.ModelSet
	routes      *modelroute.Routes
	routed      bool // sprites reach the routes
	providers   []ModelProvider
	environment []string                 // the user's
	credentials func() map[string]string // of this process, by name; may be nil
	vault       *credentials.Vault
	secretsOf   sync.Map // knownSecrets, by run
	all         everKnown
}

// environ returns the additional variables of a run's agents in one of its sprites. For providers that the run reaches
// through the host, a pass replaces the key and an address of the host that of the provider. Remote sprites do not reach the
// host and get the values themselves.
func (a *agents) environ(run, sprite string) []string {
	env := a.values.Environ(run)
	rec, err := a.records.Load(run)
	if err != nil || !a.routed {
		return env
	}
	for _, name := range rec.Kept.Routes {
		p, known := modelroute.Find(name)
		_, ok := a.findUpstream(run, name)
		if !known || !ok {
			continue
		}
		env = slices.DeleteFunc(env, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(p.Vars(), name)
		})
		env = append(env, p.KeyVars[0]+"="+a.routes.Pass(run, sprite), p.BaseVar+"="+egress.ModelURL+"/"+p.Name) // every program knows the first name
	}
	return env
}

// findUpstream returns address and key of a provider for the agents of a run that this process drives: those of the
// environment in which the run was started, else those of the settings.
func (a *agents) findUpstream(run, provider string) (up modelroute.Upstream, ok bool) {
	p, known := modelroute.Find(provider)
	rec, err := a.records.Load(run)
	if !known || err != nil || !slices.Contains(rec.Kept.Routes, provider) {
		return up, false
	}
	if driven, _ := a.drives.IsDriven(run); !driven {
		return up, false
	}
	env := map[string]string{}
	for _, kv := range a.values.Environ(run) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	base := env[p.BaseVar]
	for _, name := range p.KeyVars {
		if up.Key = env[name]; up.Key != "" {
			up.KeyVar = name
			break
		}
	}
	if up.Key == "" {
		up.KeyVar = p.KeyVars[0]
		i := slices.IndexFunc(a.providers, func(s ModelProvider) bool { return s.Name == provider })
		if i < 0 {
			return up, false
		}
		if up.Key, err = a.providers[i].Key(a.models.Key); err != nil {
			a.log.Warn().Err(err).Str("run", run).Str("provider", provider).Msg("the key of the settings for agents")
			return up, false
		}
		base = cmp.Or(base, a.providers[i].Base)
	}
	up.Base, err = url.Parse(cmp.Or(p.TrimBase(base), p.Standard))
	return up, err == nil && up.Key != "" && up.Base.Host != ""
}

// usesFile holds the requests that agents of a run made to models through the host, a line of JSON each.
const usesFile = "model-requests.jsonl"

// recordUse appends a request to the run's file, and logs it.
func (a *agents) recordUse(u modelroute.Use) {
	line, err := json.Marshal(u)
	if err == nil {
		err = appendLine(filepath.Join(a.home.Run(u.Run), usesFile), line)
	}
	a.log.Info().Err(err).Str("run", u.Run).Str("sprite", u.Sprite).Str("provider", u.Provider).Str("path", u.Path).Int("status", u.Status).Float64("seconds", u.Seconds).Msg("an agent asked a model")
}

func appendLine(file string, line []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
