package modelroute

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRoutes asks as agents do, and as programs that would like to have the key or use it for something else.
func TestRoutes(t *testing.T) {
	var asked *http.Request
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Clone(r.Context())
		if strings.HasSuffix(r.URL.Path, "/away") {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			return
		}
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"model":"m","usage":{"input_tokens":3,"output_tokens":4}}`)
	}))
	defer provider.Close()
	base, err := url.Parse(provider.URL + "/gateway")
	if err != nil {
		t.Fatal(err)
	}
	var uses []Use
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	routes := New(Options{
		Transport: transport, Record: func(u Use) { uses = append(uses, u) },
		Upstream: func(run, provider string) (Upstream, bool) {
			switch {
			case run == "run_a" && provider == "anthropic":
				return Upstream{base, "k3y", "ANTHROPIC_API_KEY"}, true
			case run == "run_a" && provider == "openai":
				return Upstream{base, "k3y", "OPENAI_API_KEY"}, true
			case run == "run_a" && provider == "google":
				return Upstream{base, "k3y", "GEMINI_API_KEY"}, true
			}
			return Upstream{}, false
		},
	})
	pass := routes.Pass("run_a", "box")
	other := New(Options{Upstream: routes.o.Upstream}).Pass("run_a", "box")
	for name, c := range map[string]struct {
		sprite, path string
		header       []string
		status       int
		wants        string // path of the provider; "" when it must not be asked
		key          string // header that has the key
	}{
		"Anthropic":               {"box", "/anthropic/v1/messages?beta=true", []string{"X-Api-Key", pass}, 200, "/gateway/v1/messages?beta=true", "X-Api-Key"},
		"by bearer":               {"box", "/anthropic/v1/messages", []string{"Authorization", "Bearer " + pass, "Cookie", "a=b"}, 200, "/gateway/v1/messages", "X-Api-Key"},
		"without a version":       {"box", "/anthropic/messages", []string{"X-Api-Key", pass}, 200, "/gateway/v1/messages", "X-Api-Key"},
		"Gemini":                  {"box", "/google/v1beta/models/m:generateContent", []string{"X-Goog-Api-Key", pass}, 200, "/gateway/v1beta/models/m:generateContent", "X-Goog-Api-Key"},
		"OpenAI":                  {"box", "/openai/responses?key=" + pass, []string{"Authorization", "Bearer " + pass}, 200, "/gateway/responses", "Authorization"},
		"a redirect":              {"box", "/openai/away", []string{"Authorization", "Bearer " + pass}, 302, "/gateway/away", "Authorization"},
		"no pass":                 {"box", "/anthropic/v1/messages", nil, 401, "", ""},
		"a made-up pass":          {"box", "/anthropic/v1/messages", []string{"X-Api-Key", passPrefix + "run_a-aaaa"}, 401, "", ""},
		"another sprite":          {"evil", "/anthropic/v1/messages", []string{"X-Api-Key", pass}, 401, "", ""},
		"another process's pass":  {"box", "/anthropic/v1/messages", []string{"X-Api-Key", other}, 401, "", ""},
		"another provider":        {"box", "/gemini/v1", []string{"X-Api-Key", pass}, 404, "", ""},
		"another run":             {"box", "/anthropic/v1", []string{"X-Api-Key", routes.Pass("run_b", "box")}, 404, "", ""},
		"out of the address":      {"box", "/anthropic/../admin", []string{"X-Api-Key", pass}, 400, "", ""},
		"out of it, escaped":      {"box", "/anthropic/%2e%2e/admin", []string{"X-Api-Key", pass}, 400, "", ""},
		"out of it, escaped more": {"box", "/anthropic/..%2fadmin", []string{"X-Api-Key", pass}, 400, "", ""},
		"nothing":                 {"box", "/", []string{"X-Api-Key", pass}, 404, "", ""},
	} {
		asked, uses = nil, nil
		req := httptest.NewRequest(http.MethodPost, "http://models.example"+c.path, strings.NewReader("question"))
		for i := 0; i < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
		}
		w := httptest.NewRecorder()
		routes.For(c.sprite).ServeHTTP(w, req)
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
		}
		if strings.Contains(w.Body.String(), "k3y") || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: the sprite is told %v %s", name, w.Header(), w.Body)
		}
		if c.wants == "" {
			if asked != nil || len(uses) > 0 {
				t.Errorf("%s: the provider was asked for %s", name, asked.URL)
			}
			continue
		}
		if asked == nil || asked.URL.RequestURI() != c.wants || asked.Host != base.Host {
			t.Errorf("%s: the provider was asked for %+v, want %s", name, asked, c.wants)
			continue
		}
		for _, h := range secretHeaders() {
			if got := asked.Header.Get(h); strings.Contains(got, passPrefix) || (h == c.key) != strings.HasSuffix(got, "k3y") || h == "Cookie" && got != "" {
				t.Errorf("%s: %s is %q", name, h, got)
			}
		}
		if len(uses) != 1 || uses[0].Run != "run_a" || uses[0].Sprite != "box" || uses[0].Status != c.status || c.status == 200 && uses[0].Tokens != (Tokens{Model: "m", Input: 3, Output: 4}) {
			t.Errorf("%s: recorded %+v", name, uses)
		}
	}
}
