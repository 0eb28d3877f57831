package host

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// apiVersion is what clients choose their dialect by.
const apiVersion = "v0.0.1-rc48"

// maxJSON bounds the body of a management call.
const maxJSON = 1 << 20

// apiError is an answer that refuses a request.
type apiError struct {
	status  int
	code    string // the `error` member
	message string
}

func (e *apiError) Error() string { return e.message }

// routes is the whole API. Everything passes guard.
func (h *Host) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				h.refuse(w, r, err)
			}
		})
	}
	handle("POST /v1/sprites", h.catalog.createSprite)
	handle("GET /v1/sprites", h.catalog.listSprites)
	handle("GET /v1/sprites/{name}", h.catalog.getSprite)
	handle("PUT /v1/sprites/{name}", h.catalog.updateSprite)
	handle("DELETE /v1/sprites/{name}", h.catalog.deleteSprite)
	handle("POST /v1/sprites/{name}/restart", h.catalog.restart)
	handle("POST /v1/sprites/{name}/upgrade", h.catalog.upgrade)
	handle("GET /v1/sprites/{name}/check", h.catalog.check)

	handle("GET /v1/sprites/{name}/exec", h.execs.execOrList)
	handle("POST /v1/sprites/{name}/exec", h.execs.execPost)
	handle("GET /v1/sprites/{name}/exec/{session}", h.execs.attach)
	handle("POST /v1/sprites/{name}/exec/{session}/kill", spoken(h.execs.kill))

	handle("POST /v1/sprites/{name}/checkpoint", h.history.createCheckpoint)
	handle("GET /v1/sprites/{name}/checkpoints", h.history.listCheckpoints)
	handle("GET /v1/sprites/{name}/checkpoints/{id}", h.history.getCheckpoint)
	handle("DELETE /v1/sprites/{name}/checkpoints/{id}", h.history.deleteCheckpoint)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/restore", h.history.restore)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/fork", h.history.forkSprite)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/verify", h.history.verifyCheckpoint)
	handle("GET /v1/sprites/{name}/diff", h.history.diff)
	handle("GET /v1/sprites/{name}/usage", h.history.usage)

	handle("GET /v1/sprites/{name}/fs/read", h.files.readFile)
	handle("PUT /v1/sprites/{name}/fs/write", h.files.writeFile)
	handle("GET /v1/sprites/{name}/fs/list", h.files.listFiles)
	handle("DELETE /v1/sprites/{name}/fs/delete", h.files.deleteFile)
	handle("POST /v1/sprites/{name}/fs/rename", h.files.renameFile)
	handle("POST /v1/sprites/{name}/fs/copy", h.files.copyFile)
	handle("POST /v1/sprites/{name}/fs/chmod", h.files.chmodFile)
	handle("POST /v1/sprites/{name}/fs/chown", h.files.chownFile)
	handle("GET /v1/sprites/{name}/fs/watch", h.files.watchFiles)

	handle("POST /v1/images", h.images.postImage)
	handle("GET /v1/images", h.images.listImages)
	handle("GET /v1/images/{ref}", h.images.getImage)
	handle("DELETE /v1/images/{ref}", h.images.deleteImage)

	handle("GET /v1/sprites/{name}/policy/network", h.policies.getNetworkPolicy)
	handle("POST /v1/sprites/{name}/policy/network", h.policies.setNetworkPolicy)
	handle("DELETE /v1/sprites/{name}/policy/network", h.policies.resetNetworkPolicy)
	handle("GET /v1/sprites/{name}/policy/network/denials", h.policies.networkDenials)
	handle("GET /v1/sprites/{name}/policy/privileges", h.policies.getPrivileges)
	handle("POST /v1/sprites/{name}/policy/privileges", h.policies.setPrivileges)
	handle("DELETE /v1/sprites/{name}/policy/privileges", h.policies.deletePrivileges)
	handle("GET /v1/sprites/{name}/policy/resources", h.policies.getResources)
	handle("POST /v1/sprites/{name}/policy/resources", h.policies.setResources)
	handle("DELETE /v1/sprites/{name}/policy/resources", h.policies.deleteResources)
	h.services.serviceRoutes(handle, "/v1/sprites/{name}/services")
	handle("GET /v1/sprites/{name}/proxy", h.reach.proxy)
	handle("GET /v1/sprites/{name}/ports/watch", h.reach.watchPorts)
	handle("POST /v1/sprites/{name}/url", h.reach.inviteURL)
	h.catalog.outsideTasks(handle)

	handle("/v1/sprites/{name}/control", h.execs.openControl)
	handle("/", func(_ http.ResponseWriter, r *http.Request) error {
		return &apiError{http.StatusNotFound, "not_found", "this host does not offer " + r.Method + " " + r.URL.Path}
	})
	return h.guard(mux)
}

// guard lets only local, authorized requests of programs through. Web pages are kept out twice: browsers tell their
// origin, and a name that was rebound to this machine is not a loopback name.
func (h *Host) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sprite-Version", apiVersion)
		w.Header().Set("X-Sprite-Capabilities", "signal,"+sprites.LiveCheckpoints)
		switch {
		case !loopback(r.Host) && !h.allowsHost(r.Host):
			writeError(w, &apiError{http.StatusForbidden, "forbidden", "the Host header names another machine; use 127.0.0.1 or localhost, or allow a reverse proxy's name: lattice sprite serve --allow-host HOST"})
			return
		case r.Header.Get("Origin") != "":
			writeError(w, &apiError{http.StatusForbidden, "forbidden", "requests of web pages are refused"})
			return
		case !h.authorized(r):
			writeError(w, &apiError{http.StatusUnauthorized, "authentication failed", "send the host's token as Authorization: Bearer TOKEN"})
			return
		case !readable(r.URL.RawQuery):
			writeError(w, badRequest("the query cannot be read: write ; and % as %3B and %25; nothing was done"))
			return
		}
		done, ok := h.fleet.admit()
		if !ok {
			writeError(w, unavailable)
			return
		}
		defer done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// allowsHost reports whether a Host header names this machine as Config.AllowHosts does.
func (h *Host) allowsHost(header string) bool {
	return slices.Contains(h.cfg.AllowHosts, hostOnly(header))
}

// hostOnly is the name of a Host header, without its port.
func hostOnly(header string) string {
	if name, _, err := net.SplitHostPort(header); err == nil {
		header = name
	}
	return strings.ToLower(strings.TrimSuffix(header, "."))
}

// readable reports whether all of a query is understood. What is not would be left out silently: a part of a command.
func readable(query string) bool {
	_, err := url.ParseQuery(query)
	return err == nil
}

var unavailable = &apiError{http.StatusServiceUnavailable, "shutting_down", errHostClosed.Error()}

func (h *Host) authorized(r *http.Request) bool {
	if h.cfg.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(h.cfg.Token)) == 1
}

// loopback reports whether a Host header names this machine and no other.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// spokenError is answered with a line of text instead of JSON, as the API has it for sessions.
type spokenError struct{ error }

func (e spokenError) Unwrap() error { return e.error }

// spoken makes the errors of a handler lines of text.
func spoken(fn func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := fn(w, r); err != nil {
			return spokenError{err}
		}
		return nil
	}
}

// refuse answers with the status that err asks for.
func (h *Host) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var limited *limitError
	if errors.As(err, &limited) {
		limited.write(w)
		return
	}
	refusal := classify(err)
	var spoken spokenError
	if errors.As(err, &spoken) {
		http.Error(w, cmp.Or(refusal.message, refusal.code), refusal.status)
		return
	}
	if refusal.code == sprites.CodeShortage {
		w.Header().Set("Retry-After", "1")
	}
	if refusal.status >= 500 {
		h.cfg.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
	}
	writeError(w, refusal)
}

// Unopened answers for a host that could not be opened: every request is refused with the reason.
func Unopened(why error) http.Handler {
	refusal := &apiError{http.StatusInternalServerError, sprites.CodeUnavailable, why.Error()}
	if errors.Is(why, ErrDamaged) {
		refusal.code = sprites.CodeDamaged
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeError(w, refusal) })
}

// classify is the one table from errors to answers.
func classify(err error) *apiError {
	var api *apiError
	var degraded degradedError
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, ErrDamaged):
		return &apiError{http.StatusInternalServerError, sprites.CodeDamaged, err.Error()}
	case errors.Is(err, errNoSprite):
		return &apiError{http.StatusNotFound, errNoSprite.Error(), ""}
	case errors.Is(err, errNoCheckpoint):
		return &apiError{http.StatusNotFound, errNoCheckpoint.Error(), ""}
	case errors.Is(err, errNameTaken):
		return &apiError{http.StatusConflict, "name_conflict", err.Error()}
	case errors.As(err, &degraded):
		return &apiError{http.StatusConflict, "degraded", err.Error()}
	case errors.Is(err, sandbox.ErrDied): // first, because the cause of that end may be any of the next ones
		return &apiError{http.StatusBadGateway, sprites.CodeSandboxDied, err.Error() + "; whether the command began is not known"}
	case sandbox.Short(err): // which ENOSPC also is where it is of namespaces
		return &apiError{http.StatusServiceUnavailable, sprites.CodeShortage, err.Error() + "; try again in a moment"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &apiError{http.StatusInsufficientStorage, "disk_full", "the disk that holds the sprites is full; nothing was changed, free some space and try again"}
	case errors.Is(err, errHostClosed), errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return unavailable
	}
	return &apiError{http.StatusInternalServerError, "internal", err.Error()}
}

func writeError(w http.ResponseWriter, e *apiError) {
	body := map[string]string{"error": e.code}
	if e.message != "" {
		body["message"] = e.message
	}
	writeJSON(w, e.status, body)
}

// writeJSON answers with v. A client that is gone is no error of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// readJSON decodes a body into v; an empty body leaves v alone. Unknown members are ignored: clients send more than we
// offer.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, v)
	}
	var tooLarge *http.MaxBytesError
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return badRequest(fmt.Sprintf("%s cannot be a JSON %s", mistyped.Field, mistyped.Value))
	case errors.As(err, &tooLarge):
		return &apiError{http.StatusRequestEntityTooLarge, "too_large", "the request body is larger than 1 MiB"}
	}
	return badRequest("the request body is not the JSON that was expected: " + err.Error())
}

func badRequest(message string) *apiError {
	return &apiError{http.StatusBadRequest, "bad_request", message}
}
