package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// request is one of a browser.
func request(method, path, cookie string, form url.Values, header ...string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:1"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: cookie})
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// TestSessions: a browser is let in by its cookie. A change also needs the text of the session's pages, and comes from no other
// site.
func TestSessions(t *testing.T) {
	csrf := url.Values{"csrf": {csrfOf("operator")}}
	for _, tt := range []struct {
		name   string
		r      *http.Request
		status int
	}{
		{"no session", request("GET", "/runs", "", nil), 303},
		{"wrong session", request("GET", "/runs", "none", nil), 303},
		{"reads the page", request("GET", "/runs", "viewer", nil), 200},
		{"reads the interface", request("GET", "/api/v1/runs", "viewer", nil), 200},
		{"reads the interface from the page", request("GET", "/api/v1/runs", "viewer", nil, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-origin"), 200},
		{"reads from another site", request("GET", "/api/v1/runs", "viewer", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"), 403},
		{"follows a link of another site", request("GET", "/login", "", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200},
		{"changes without the text", request("POST", "/runs/x/cancel", "operator", url.Values{}), 401},
		{"changes with that of another session", request("POST", "/runs/x/cancel", "operator", url.Values{"csrf": {csrfOf("admin")}}), 401},
		{"changes", request("POST", "/runs/x/cancel", "operator", csrf), 404}, // there is no run
		{"changes without the role", request("POST", "/runs/x/cancel", "viewer", url.Values{"csrf": {csrfOf("viewer")}}), 403},
		{"changes from another site", request("POST", "/runs/x/cancel", "operator", csrf, "Origin", "http://evil.example"), 403},
		{"changes from another port", request("POST", "/runs/x/cancel", "operator", csrf, "Sec-Fetch-Site", "same-site"), 403},
		{"changes by the interface without the text", request("POST", "/api/v1/runs/x/decide", "operator", nil), 401},
		{"changes by the interface", request("POST", "/api/v1/runs/x/decide", "operator", nil, "X-CSRF-Token", csrfOf("operator")), 200},
		{"opens a shell without the role", request("GET", "/api/v1/runs/x/shell", "viewer", nil, "Upgrade", "websocket"), 403},
		{"opens a shell from another site", request("GET", "/api/v1/runs/x/shell", "operator", nil, "Upgrade", "websocket", "Origin", "http://evil.example"), 403},
		{"has no page", request("GET", "/nothing", "viewer", nil), 404},
		{"a wrong token", request("POST", "/login", "", url.Values{"secret": {"none"}}), 401},
		{"many wrong tokens", request("POST", "/login", "", url.Values{"secret": {"flood"}}), 429},
		{"logs out without the text", request("POST", "/logout", "viewer", url.Values{}), 303},
		{"the style", request("GET", "/assets/page.css", "", nil), 200},
		{"no other file", request("GET", "/templates/layout.html", "", nil), 303},
	} {
		w := httptest.NewRecorder()
		Handler(leader{}, nil, true).ServeHTTP(w, tt.r)
		if w.Code != tt.status {
			t.Errorf("%s: %d, want %d: %.200s", tt.name, w.Code, tt.status, w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy of content is %q", tt.name, policy)
		}
	}
}

// TestRefusals: an answer without a page says why.
func TestRefusals(t *testing.T) {
	for code, r := range map[string]*http.Request{
		"session_missing": request("POST", "/runs/x/cancel", "operator", url.Values{}),
		"no_page":         request("GET", "/nothing", "viewer", nil),
		"role_missing":    request("POST", "/runs/x/cancel", "viewer", url.Values{"csrf": {csrfOf("viewer")}}),
	} {
		w := httptest.NewRecorder()
		if Handler(leader{}, nil, true).ServeHTTP(w, r); !strings.Contains(w.Body.String(), code) {
			t.Errorf("%s %s: %s, want %s", r.Method, r.URL, w.Body, code)
		}
	}
}

// TestLogin: a login sets a cookie that no script reads and that no other site sends, and leads to a page of this server.
func TestLogin(t *testing.T) {
	for next, want := range map[string]string{"/runs/x?step=1": "/runs/x?step=1", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/", "javascript:alert(1)": "/"} {
		w := httptest.NewRecorder()
		Handler(leader{}, nil, true).ServeHTTP(w, request("POST", "/login", "", url.Values{"secret": {" viewer\n"}, "next": {next}}))
		cookies := w.Result().Cookies()
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want || len(cookies) != 1 {
			t.Fatalf("login to %q: %d %s, %d cookies, want %s", next, w.Code, w.Header().Get("Location"), len(cookies), want)
		}
		if c := cookies[0]; c.Value != "viewer" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure {
			t.Errorf("the cookie is %v", c)
		}
	}
}
