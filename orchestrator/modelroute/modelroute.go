// Package modelroute lets agents in sprites ask models without having the keys. Start with Routes, which is an
// [http.Handler] for one sprite. A sprite reaches it in plain HTTP under a name of the host's (egress.ModelName); the agent
// has a pass in place of the key and an address below that name in place of the provider's:
//
//	agent ──http, pass──► Routes: whose pass? ──https, key──► the provider, or a gateway
//
// A pass is worth something in the sprite that it was made for and while this process drives its run, and nowhere else: it may
// lie in session files and checkpoints. Every request is recorded. The key is never sent anywhere but to the address that it
// belongs to, and no redirect is followed with it.
//
// Keys and tokens that are sent as they are can be kept outside so; requests that are signed (Bedrock, Vertex) and logins
// that the agent renews by itself (OAuth) cannot.
package modelroute

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Provider is a model service whose clients read its address and their key from environment variables.
type Provider struct {
	Name     string   // the first part of paths below the host's name
	KeyVars  []string // the first one that is set counts
	BaseVar  string
	Standard string // where it is without BaseVar
}

// Providers lists the providers that have a route.
func Providers() []Provider {
	return []Provider{
		{"anthropic", []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
		{"openai", []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, "OPENAI_BASE_URL", "https://api.openai.com/v1"},
		{"google", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
		{"openrouter", []string{"OPENROUTER_API_KEY"}, "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"},
	}
}

// Find returns the provider of a name.
func Find(name string) (Provider, bool) {
	all := Providers()
	i := slices.IndexFunc(all, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return all[i], true
}

// Vars are all variables of the provider.
func (p Provider) Vars() []string { return append(slices.Clone(p.KeyVars), p.BaseVar) }

// resolvePath returns the path below the provider's address that a program asks for: below that of Anthropic some programs
// name the version of the API, and others leave it out.
func (p Provider) resolvePath(rest string) string {
	if p.Name == "anthropic" && !strings.HasPrefix(rest, "v1/") {
		return "v1/" + rest
	}
	return rest
}

// TrimBase returns an address without the suffix that resolvePath adds.
func (p Provider) TrimBase(base string) string {
	base = strings.TrimSuffix(base, "/")
	if p.Name == "anthropic" {
		base = strings.TrimSuffix(base, "/v1")
	}
	return base
}

// Upstream is where requests of a run go, and with which key.
type Upstream struct {
	Base   *url.URL
	Key    string
	KeyVar string // which says how the provider wants the key
}

// setAuthorization sets the header that the provider wants.
func (u Upstream) setAuthorization(h http.Header) {
	for _, name := range secretHeaders() {
		h.Del(name)
	}
	switch u.KeyVar {
	case "ANTHROPIC_API_KEY":
		h.Set("X-Api-Key", u.Key)
	case "GEMINI_API_KEY", "GOOGLE_API_KEY":
		h.Set("X-Goog-Api-Key", u.Key)
	default:
		h.Set("Authorization", "Bearer "+u.Key)
	}
}

// secretHeaders are those in which programs send keys.
func secretHeaders() []string {
	return []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Cookie"}
}

// Use is one request of an agent, as it is recorded.
type Use struct {
	Time     time.Time `json:"time"`
	Run      string    `json:"run_id"`
	Sprite   string    `json:"sprite"`
	Provider string    `json:"provider"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	Seconds  float64   `json:"seconds"` // until the head of the answer
	Tokens
}

// Options of Routes.
type Options struct {
	// Upstream returns where a run's requests to a provider go, false when that run has no such route.
	Upstream func(run, provider string) (Upstream, bool)
	// Record, if not nil, is called for every request after the end of its response.
	Record func(Use)
	// Transport speaks to providers.
	Transport http.RoundTripper
}

// Routes makes passes, and handlers that know them.
type Routes struct {
	o   Options
	key []byte // of this process: passes of another one are worth nothing
}

// New returns Routes whose passes end with it.
func New(o Options) *Routes {
	if o.Record == nil {
		o.Record = func(Use) {}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return &Routes{o, key}
}

// passPrefix marks a value as a pass.
const passPrefix = "lattice-pass-"

// IsPass reports whether a value is a pass, of whatever process.
func IsPass(value string) bool { return strings.HasPrefix(value, passPrefix) }

// Pass stands for the keys of a run in one sprite.
func (r *Routes) Pass(run, sprite string) string {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(run + "\n" + sprite))
	return passPrefix + run + "-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)))
}

// runOf is the run whose pass a request from a sprite has.
func (r *Routes) runOf(req *http.Request, sprite string) (string, bool) {
	_, bearer, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	for _, pass := range []string{req.Header.Get("X-Api-Key"), req.Header.Get("X-Goog-Api-Key"), bearer} {
		rest, ok := strings.CutPrefix(pass, passPrefix)
		end := strings.LastIndexByte(rest, '-')
		if !ok || end < 0 {
			continue
		}
		if run := rest[:end]; subtle.ConstantTimeCompare([]byte(pass), []byte(r.Pass(run, sprite))) == 1 {
			return run, true
		}
	}
	return "", false
}

// maxBody bounds the body of a request.
const maxBody = 64 << 20

// For serves the requests of one sprite.
func (r *Routes) For(sprite string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		run, ok := r.runOf(req, sprite)
		if !ok {
			writeRefusal(w, http.StatusUnauthorized, "authentication_error", "this is the host's way to models: it takes the pass that the agent of a run was given in place of a key")
			return
		}
		up, ok := r.o.Upstream(run, name)
		switch {
		case !ok:
			writeRefusal(w, http.StatusNotFound, "not_found_error", "run "+run+" has no way to "+name+" through the host")
			return
		case slices.Contains(strings.Split(rest, "/"), ".."):
			writeRefusal(w, http.StatusBadRequest, "invalid_request_error", "the path leads out of the provider's address")
			return
		}
		if p, known := Find(name); known {
			rest = p.resolvePath(rest)
		}
		began := time.Now()
		proxy := &httputil.ReverseProxy{
			Transport: r.o.Transport, FlushInterval: -1,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Path, p.Out.URL.RawPath = "/"+rest, ""
				p.SetURL(up.Base)
				p.Out.Host = up.Base.Host
				up.setAuthorization(p.Out.Header)
				p.Out.Header.Del("Accept-Encoding") // the transport's own is undone before the tokens are counted
				query := p.Out.URL.Query()
				query.Del("key") // where some programs send it
				p.Out.URL.RawQuery = query.Encode()
			},
			ModifyResponse: func(res *http.Response) error {
				res.Header.Del("Set-Cookie")
				use := Use{Time: began.UTC(), Run: run, Sprite: sprite, Provider: name, Path: "/" + rest, Status: res.StatusCode, Seconds: time.Since(began).Seconds()}
				if res.StatusCode == http.StatusSwitchingProtocols { // the body is the connection
					r.o.Record(use)
					return nil
				}
				res.Body = newTokenReader(res, func(t Tokens) {
					use.Tokens = t
					r.o.Record(use)
				})
				return nil
			},
			ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
				if req.Context().Err() == nil {
					r.o.Record(Use{Time: began.UTC(), Run: run, Sprite: sprite, Provider: name, Path: "/" + rest, Status: http.StatusBadGateway, Seconds: time.Since(began).Seconds()})
				}
				writeRefusal(w, http.StatusBadGateway, "api_error", "the host does not reach "+up.Base.Host+" for "+name+": "+err.Error())
			},
		}
		req.Body = http.MaxBytesReader(w, req.Body, maxBody)
		proxy.ServeHTTP(w, req)
	})
}

// writeRefusal answers in the form that programs of both providers show to people.
func writeRefusal(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}) // it may be gone
}
