package forgetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// caller returns the account of a request. Basic credentials, as git sends them, hold the token as the password.
func (s *model) caller(r *http.Request) *user {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token":
	case "basic":
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return nil
		}
		_, value, _ = strings.Cut(string(text), ":")
	default:
		return nil
	}
	for _, u := range s.users {
		if u.token != "" && u.token == value {
			return u
		}
	}
	return nil
}

// A request is one request about a repository, by an account that may see it.
type request struct {
	*http.Request
	w    http.ResponseWriter
	by   *user
	repo *repo
	body []byte
}

// asUser answers a request of an account. handle runs under the lock of the server.
func (s *model) asUser(handle func(q request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return // the client is gone
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		by := s.caller(r)
		switch {
		case r.Header.Get("User-Agent") == "":
			writeProblem(w, http.StatusForbidden, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header")
		case s.kind == forge.GitHub && r.Header.Get("Accept") != "application/vnd.github+json":
			writeProblem(w, http.StatusUnsupportedMediaType, "Unsupported 'Accept' header")
		case by == nil:
			writeProblem(w, http.StatusUnauthorized, "Bad credentials")
		default:
			handle(request{r, w, by, nil, body})
		}
	}
}

// inRepo answers a request about a repository by an account that has a role there.
func (s *model) inRepo(least forge.Role, handle func(q request)) http.HandlerFunc {
	return s.asUser(func(q request) {
		q.repo = s.findRepo(q.PathValue("owner") + "/" + q.PathValue("repo"))
		switch {
		case q.repo == nil, !q.repo.roleOf(q.by).AtLeast(forge.Read):
			writeProblem(q.w, http.StatusNotFound, "Not Found")
		case !q.repo.roleOf(q.by).AtLeast(least):
			writeProblem(q.w, http.StatusForbidden, "Resource not accessible by personal access token")
		default:
			handle(q)
		}
	})
}

// decode reads the body strictly. It answers the request itself if it cannot.
func (q request) decode(into any) bool {
	d := json.NewDecoder(bytes.NewReader(q.body))
	d.DisallowUnknownFields()
	if q.Header.Get("Content-Type") != "application/json" {
		writeProblem(q.w, http.StatusUnsupportedMediaType, "Unsupported Media Type")
		return false
	}
	if err := d.Decode(into); err != nil {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Invalid request: "+err.Error())
		return false
	}
	return true
}

// item returns the issue or pull request that the path names.
func (q request) item() *item {
	n, err := strconv.Atoi(q.PathValue("number"))
	if err != nil || n < 1 || n > len(q.repo.items) {
		writeProblem(q.w, http.StatusNotFound, "Not Found")
		return nil
	}
	return q.repo.items[n-1]
}

// pull returns the pull request that the path names.
func (q request) pull() *item {
	i := q.item()
	if i != nil && i.pull == nil {
		writeProblem(q.w, http.StatusNotFound, "Not Found")
		return nil
	}
	return i
}

// comment returns the comment that the path names.
func (q request) comment() (*item, *comment) {
	id, _ := strconv.ParseInt(q.PathValue("id"), 10, 64)
	i, c := q.repo.findComment(id)
	if c == nil {
		writeProblem(q.w, http.StatusNotFound, "Not Found")
	}
	return i, c
}

// writeJSON writes a value as JSON.
func (q request) writeJSON(status int, v any) {
	q.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	q.w.WriteHeader(status)
	_ = json.NewEncoder(q.w).Encode(v)
}

// writePage answers with one page of a list, and names the next one.
func (q request) writePage(s *model, list []any) {
	parameter, size := "per_page", 30
	if s.kind == forge.Gitea {
		parameter = "limit"
	}
	if n, err := strconv.Atoi(q.URL.Query().Get(parameter)); err == nil && n > 0 {
		size = min(n, 100)
	}
	n, _ := strconv.Atoi(q.URL.Query().Get("page"))
	n = max(n, 1)
	from := min((n-1)*size, len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		query := q.URL.Query()
		query.Set("page", strconv.Itoa(n+1))
		path, _, _ := strings.Cut(q.RequestURI, "?")
		q.w.Header().Set("Link", "<"+s.web+path+"?"+query.Encode()+`>; rel="next"`)
	}
	q.writeJSON(http.StatusOK, append([]any{}, list[from:to]...))
}

// writeProblem answers with a message, as code hosts do.
func writeProblem(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": message})
}
