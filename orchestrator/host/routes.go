package host

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

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
		return newError(http.StatusNotFound, "not_found", "this host does not offer "+r.Method+" "+r.URL.Path)
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
			writeError(w, newError(http.StatusForbidden, "forbidden", "the Host header names another machine; use 127.0.0.1 or localhost, or allow a reverse proxy's name: lattice sprite serve --allow-host HOST"))
			return
		case r.Header.Get("Origin") != "":
			writeError(w, newError(http.StatusForbidden, "forbidden", "requests of web pages are refused"))
			return
		case !h.authorized(r):
			writeError(w, newError(http.StatusUnauthorized, "authentication failed", "send the host's token as Authorization: Bearer TOKEN"))
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
		defer context.AfterFunc(h.core.ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// allowsHost reports whether a Host header names this machine as Config.AllowHosts does.
func (h *Host) allowsHost(header string) bool {
	return slices.Contains(h.core.cfg.AllowHosts, hostOnly(header))
}

func (h *Host) authorized(r *http.Request) bool {
	if h.core.cfg.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(h.core.cfg.Token)) == 1
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
		h.core.cfg.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
	}
	writeError(w, refusal)
}

// Unopened answers for a host that could not be opened: every request is refused with the reason.
func Unopened(why error) http.Handler {
	refusal := newError(http.StatusInternalServerError, sprites.CodeUnavailable, why.Error())
	if errors.Is(why, ErrDamaged) {
		refusal.code = sprites.CodeDamaged
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeError(w, refusal) })
}

// insideRoutes are the calls of a sprite about itself.
func (h *Host) insideRoutes(s *insideServer, id, name string) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				h.refuse(w, r, err)
			}
		})
	}
	handle("POST /v1/checkpoint", func(w http.ResponseWriter, r *http.Request) error {
		if !s.checkpoints.take() {
			w.Header().Set("Retry-After", "1")
			return newError(http.StatusTooManyRequests, "checkpoint_rate_limited", "too many checkpoints at once; try again in a second")
		}
		if points, err := h.core.store.checkpoints(id); err == nil && len(points) >= s.most {
			return newError(http.StatusConflict, "too_many_checkpoints", fmt.Sprintf("the sprite has %d checkpoints; whoever owns it can remove some: lattice sprite checkpoints rm %s ID", len(points), name))
		}
		return h.history.checkpointNamed(w, r, name, true)
	})
	handle("GET /v1/checkpoints", func(w http.ResponseWriter, r *http.Request) error {
		return h.history.listNamed(w, name, false, "")
	})
	handle("GET /v1/checkpoints/{id}", func(w http.ResponseWriter, r *http.Request) error {
		return h.history.getNamed(w, name, r.PathValue("id"))
	})
	h.catalog.taskRoutes(handle, "/v1/tasks", func(*http.Request) (*sprite, func(), error) {
		rec, err := h.core.store.sprite(name)
		if err == nil && rec.ID != id {
			err = errNoSprite
		}
		if err != nil {
			return nil, nil, err
		}
		s, err := h.fleet.runtime(rec)
		return s, func() {}, err
	})
	// Calls that are those of the API, about this sprite.
	own := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) error {
			if rec, err := h.core.store.sprite(name); err != nil || rec.ID != id {
				return errors.Join(errNoSprite, err)
			}
			r.SetPathValue("name", name)
			return fn(w, r)
		})
	}
	for _, version := range []string{"", "/v1"} {
		own("GET "+version+"/info", h.catalog.spriteInfo)
		own("GET "+version+"/policy/network", h.policies.getNetworkPolicy)
	}
	h.services.serviceRoutes(own, "/v1/services")
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return newError(http.StatusNotFound, "not_found", "from inside, a sprite can create and list its checkpoints, keep its tasks and services, read its network policy, and nothing else")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sprite-Version", apiVersion)
		s.calls.Add(1) // before close waits: close first waits for every connection's goroutine to be refused
		defer s.calls.Done()
		if !s.requests.take() {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			writeError(w, newError(http.StatusTooManyRequests, "rate_limited", "too many requests at once; try again in a second"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
