package setup

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/publish"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
)

// gitHub is the address of a code host of the kind github that names none.
const gitHub = "https://github.com"

// WebOf returns the address of the pages of a code host.
func WebOf(s settings.Forge) string {
	if s.URL == "" {
		return gitHub
	}
	return s.URL
}

// forgeClients keeps one connection to each code host, because a connection counts its own requests.
type forgeClients struct {
	mu      sync.Mutex
	all     map[string]forge.Client
	observe atomic.Pointer[func(host string, r *http.Request, status int)]
}

// CodeHosts gives access to the code hosts of the settings.
type CodeHosts struct{ env *Env }

// CodeHosts returns the code hosts of the settings.
func (env *Env) CodeHosts() CodeHosts { return CodeHosts{env} }

// Observe calls observe with each request to a code host from then on.
func (h CodeHosts) Observe(observe func(host string, r *http.Request, status int)) {
	h.env.forges.observe.Store(&observe)
}

// Client returns the connection to a code host of the settings. Its token is read for each call, so that it can be
// replaced.
func (h CodeHosts) Client(name string) (forge.Client, error) {
	s, ok := h.env.Settings.Forges[name]
	if !ok {
		return nil, fault.NotFound("forge_not_found", "the settings have no code host %q", name).WithHint("add [forges.%s] to the settings; lattice forge ls lists those there are", name)
	}
	h.env.forges.mu.Lock()
	defer h.env.forges.mu.Unlock()
	if c := h.env.forges.all[name]; c != nil {
		return c, nil
	}
	observe := func(r *http.Request, status int) {
		if f := h.env.forges.observe.Load(); f != nil {
			(*f)(name, r, status)
		}
	}
	o := rest.Options{Token: func(context.Context) (string, error) { return h.readToken(name) }, Observe: observe}
	var c forge.Client
	switch {
	case forge.Kind(s.Kind) == forge.Gitea:
		c = gitea.New(WebOf(s), o)
	case s.AppID != 0:
		text, err := readPrivate(h.env.Expand(s.AppKeyFile))
		if err != nil {
			return nil, err
		}
		key, err := github.ParseKey(text)
		if err != nil {
			return nil, fault.BadInput("forge_unusable", "the key of the App of the code host %s cannot be used: %v", name, err).WithHint("download a private key in the settings of the App")
		}
		c = github.NewApp(WebOf(s), int64(s.AppID), int64(s.InstallationID), key, rest.Options{Observe: observe})
	default:
		c = github.New(WebOf(s), o)
	}
	if h.env.forges.all == nil {
		h.env.forges.all = map[string]forge.Client{}
	}
	h.env.forges.all[name] = c
	return c, nil
}

// findToken returns a token for a code host that holds now.
func (h CodeHosts) findToken(ctx context.Context, name string) (string, error) {
	if h.env.Settings.Forges[name].AppID == 0 {
		return h.readToken(name)
	}
	c, err := h.Client(name)
	if err != nil {
		return "", err
	}
	return c.(*github.Client).App().Token(ctx)
}

// lastToken returns the token of a code host that was used last, "" if there is none.
func (h CodeHosts) lastToken(name string) string {
	if h.env.Settings.Forges[name].AppID == 0 {
		token, err := h.readToken(name)
		if err != nil {
			return ""
		}
		return token
	}
	c, err := h.Client(name)
	if err != nil {
		return ""
	}
	return c.(*github.Client).App().LastToken()
}

// readToken returns the token that the settings name.
func (h CodeHosts) readToken(name string) (string, error) {
	s := h.env.Settings.Forges[name]
	token, err := h.env.resolveReference("", s.TokenEnv, s.TokenFile)
	if err != nil {
		return "", fault.BadInput("forge_unusable", "the code host %s cannot be used: %v", name, err).WithHint("correct [forges.%s] in the settings", name)
	}
	return token, nil
}

// Publisher returns the publisher of actions at the code hosts of the settings.
func (h CodeHosts) Publisher() *publish.Publisher {
	p := &publish.Publisher{Hosts: map[string]publish.Host{}}
	for name, s := range h.env.Settings.Forges {
		p.Hosts[name] = publish.Host{Web: WebOf(s), Repositories: forgePaths(s), Client: func() (publish.Client, error) { return h.Client(name) }}
	}
	return p
}

// forgePaths returns the repositories that a code host may be used for.
func forgePaths(s settings.Forge) (paths []forge.Path) {
	for _, r := range s.Repositories {
		if p, ok := forge.ParsePath(r); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

// AuthorizeGit returns the header Authorization for git's requests to a repository of the settings, "" for any other.
func (h CodeHosts) AuthorizeGit(ctx context.Context, repository string) (string, error) {
	for name, s := range h.env.Settings.Forges {
		path, ok := forge.Locate(WebOf(s), repository)
		if !ok || !slices.ContainsFunc(forgePaths(s), path.Equal) {
			continue
		}
		token, err := h.findToken(ctx, name)
		if err != nil {
			return "", fmt.Errorf("authorize git at the code host %s: %w", name, err)
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token)), nil
	}
	return "", nil
}
