package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/dashboard"
	"github.com/spritekit/lattice/orchestrator/leader/access"
	"github.com/spritekit/lattice/spritekit/fault"
)

// cookieName is the cookie with the text of a session.
const cookieName = "lattice_session"

// maxForm is the largest form that a page sends, in bytes: a flow of 1 MiB, encoded.
const maxForm = 4 << 20

// csrfOf returns the text that a page of a session sends back with every change. A page of another site cannot know it.
func csrfOf(session string) string {
	sum := sha256.Sum256([]byte("csrf:" + session))
	return hex.EncodeToString(sum[:16])
}

// findSession returns the caller with the session of a request. A request that changes something must come from a page of the
// session, or it counts as one without.
func (s *server) findSession(w http.ResponseWriter, r *http.Request) (access.Caller, bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return access.Caller{}, false
	}
	c, ok, err := s.leader.CheckSession(r.Context(), cookie.Value)
	return c, ok && err == nil && (isRead(r) || hasCSRF(w, r, cookie.Value))
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// hasCSRF reports whether a request has the text of its session's pages, in a header or in a form.
func hasCSRF(w http.ResponseWriter, r *http.Request, session string) bool {
	sent := r.Header.Get("X-CSRF-Token")
	if sent == "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		sent = r.PostFormValue("csrf")
	}
	return subtle.ConstantTimeCompare([]byte(sent), []byte(csrfOf(session))) == 1
}

// login begins a session with a token or a login code.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	begun, ok, wait, err := s.leader.BeginSession(r.Context(), strings.TrimSpace(r.PostFormValue("secret")))
	switch {
	case err != nil:
		s.page.ServeLogin(w, r, http.StatusInternalServerError, err.Error())
	case !ok:
		status, p := explainRefusal(w, wait)
		s.page.ServeLogin(w, r, status, p.Fault.Message)
	default:
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: begun.Text, Path: "/", Expires: begun.Expires, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, localPath(r.PostFormValue("next")), http.StatusSeeOther)
	}
}

// localPath returns a path of this server, the first page for anything else.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.Contains(text, "\\") {
		return "/"
	}
	return text
}

// logout ends the session of a request.
func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.findSession(w, r); !ok {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	cookie, _ := r.Cookie(cookieName) // findSession read it
	if err := s.leader.EndSession(r.Context(), cookie.Value); err != nil {
		exchange.Fail(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, Expires: time.Unix(1, 0), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// servePage serves the page to a browser with a session; one without goes to the login.
func (s *server) servePage(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" { // a program, for which there is nothing here
		if _, ok := s.findCaller(w, r); ok {
			refuseRoute(w, r)
		}
		return
	}
	c, ok := s.findSession(w, r)
	switch {
	case ok:
		cookie, _ := r.Cookie(cookieName) // findSession read it
		s.page.Serve(w, r, dashboard.Visitor{Who: c.Who, Role: c.Role, CSRF: csrfOf(cookie.Value)})
	case isRead(r):
		http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	default:
		if err := s.leader.RecordRefused(r.Context(), "session_missing", r.Header.Get("Origin")); err != nil {
			exchange.Fail(w, err)
			return
		}
		exchange.WriteProblem(w, http.StatusUnauthorized, fault.Denied("session_missing", "the session has ended, or the form is not one of its pages").WithHint("log in again: lattice open"))
	}
}
