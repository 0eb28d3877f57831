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

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/history"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// routes is the whole API. Everything passes guard.
func (h *Host) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				h.writeRefusal(w, r, err)
			}
		})
	}
	handle("POST /v1/sprites", h.catalog.CreateSprite)
	handle("GET /v1/sprites", h.catalog.ListSprites)
	handle("GET /v1/sprites/{name}", h.catalog.GetSprite)
	handle("PUT /v1/sprites/{name}", h.catalog.UpdateSprite)
	handle("DELETE /v1/sprites/{name}", h.catalog.DeleteSprite)
	handle("POST /v1/sprites/{name}/restart", h.catalog.Restart)
	handle("POST /v1/sprites/{name}/upgrade", h.catalog.Upgrade)
	handle("GET /v1/sprites/{name}/check", h.catalog.Check)

	handle("GET /v1/sprites/{name}/exec", h.execs.ExecOrList)
	handle("POST /v1/sprites/{name}/exec", h.execs.Post)
	handle("GET /v1/sprites/{name}/exec/{session}", h.execs.Attach)
	handle("POST /v1/sprites/{name}/exec/{session}/kill", wire.AsText(h.execs.Kill))

	handle("POST /v1/sprites/{name}/checkpoint", h.history.CreateCheckpoint)
	handle("GET /v1/sprites/{name}/checkpoints", h.history.ListCheckpoints)
	handle("GET /v1/sprites/{name}/checkpoints/{id}", h.history.GetCheckpoint)
	handle("DELETE /v1/sprites/{name}/checkpoints/{id}", h.history.DeleteCheckpoint)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/restore", h.history.Restore)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/fork", h.history.ForkSprite)
	handle("POST /v1/sprites/{name}/checkpoints/{id}/verify", h.history.VerifyCheckpoint)
	handle("GET /v1/sprites/{name}/diff", h.history.Diff)
	handle("GET /v1/sprites/{name}/usage", h.history.Usage)

	handle("GET /v1/sprites/{name}/fs/read", h.files.ReadFile)
	handle("PUT /v1/sprites/{name}/fs/write", h.files.WriteFile)
	handle("GET /v1/sprites/{name}/fs/list", h.files.ListFiles)
	handle("DELETE /v1/sprites/{name}/fs/delete", h.files.DeleteFile)
	handle("POST /v1/sprites/{name}/fs/rename", h.files.RenameFile)
	handle("POST /v1/sprites/{name}/fs/copy", h.files.CopyFile)
	handle("POST /v1/sprites/{name}/fs/chmod", h.files.ChmodFile)
	handle("POST /v1/sprites/{name}/fs/chown", h.files.ChownFile)
	handle("GET /v1/sprites/{name}/fs/watch", h.files.WatchFiles)

	handle("POST /v1/images", h.images.PostImage)
	handle("GET /v1/images", h.images.ListImages)
	handle("GET /v1/images/{ref}", h.images.GetImage)
	handle("DELETE /v1/images/{ref}", h.images.DeleteImage)

	handle("GET /v1/sprites/{name}/policy/network", h.policies.GetNetworkPolicy)
	handle("POST /v1/sprites/{name}/policy/network", h.policies.SetNetworkPolicy)
	handle("DELETE /v1/sprites/{name}/policy/network", h.policies.ResetNetworkPolicy)
	handle("GET /v1/sprites/{name}/policy/network/denials", h.policies.NetworkDenials)
	handle("GET /v1/sprites/{name}/policy/privileges", h.policies.GetPrivileges)
	handle("POST /v1/sprites/{name}/policy/privileges", h.policies.SetPrivileges)
	handle("DELETE /v1/sprites/{name}/policy/privileges", h.policies.DeletePrivileges)
	handle("GET /v1/sprites/{name}/policy/resources", h.policies.GetResources)
	handle("POST /v1/sprites/{name}/policy/resources", h.policies.SetResources)
	handle("DELETE /v1/sprites/{name}/policy/resources", h.policies.DeleteResources)
	h.services.Routes(handle, "/v1/sprites/{name}/services")
	handle("GET /v1/sprites/{name}/proxy", h.reach.Proxy)
	handle("GET /v1/sprites/{name}/ports/watch", h.reach.WatchPorts)
	handle("POST /v1/sprites/{name}/url", h.reach.InviteURL)
	h.catalog.TaskRoutes(handle)

	handle("/v1/sprites/{name}/control", h.execs.OpenControl)
	handle("/", func(_ http.ResponseWriter, r *http.Request) error {
		return wire.Refuse(http.StatusNotFound, "not_found", "this host does not offer "+r.Method+" "+r.URL.Path)
	})
	return h.guardRequests(mux)
}

// guardRequests lets only local, authorized requests of programs through. Web pages are kept out twice: browsers tell their
// origin, and a name that was rebound to this machine is not a loopback name.
func (h *Host) guardRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sprite-Version", wire.Version)
		w.Header().Set("X-Sprite-Capabilities", "signal,"+sprites.LiveCheckpoints)
		switch {
		case !wire.IsLoopback(r.Host) && !h.allowsHost(r.Host):
			wire.WriteError(w, wire.Refuse(http.StatusForbidden, "forbidden", "the Host header names another machine; use 127.0.0.1 or localhost, or allow a reverse proxy's name: lattice sprite serve --allow-host HOST"))
			return
		case r.Header.Get("Origin") != "":
			wire.WriteError(w, wire.Refuse(http.StatusForbidden, "forbidden", "requests of web pages are refused"))
			return
		case !h.isAuthorized(r):
			wire.WriteError(w, wire.Refuse(http.StatusUnauthorized, "authentication failed", "send the host's token as Authorization: Bearer TOKEN"))
			return
		case !wire.IsQuery(r.URL.RawQuery):
			wire.WriteError(w, wire.BadRequest("the query cannot be read: write ; and % as %3B and %25; nothing was done"))
			return
		}
		done, ok := h.fleet.Admit()
		if !ok {
			wire.WriteError(w, wire.Unavailable)
			return
		}
		defer done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.core.Context, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// allowsHost reports whether a Host header names this machine as Config.AllowHosts does.
func (h *Host) allowsHost(header string) bool {
	return slices.Contains(h.core.Config.AllowHosts, wire.HostName(header))
}

func (h *Host) isAuthorized(r *http.Request) bool {
	if h.core.Config.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(h.core.Config.Token)) == 1
}

// writeRefusal answers with the status that err asks for.
func (h *Host) writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	if limited, ok := errors.AsType[*wire.LimitError](err); ok {
		limited.Write(w)
		return
	}
	refusal := wire.Classify(err)
	if _, ok := errors.AsType[wire.TextError](err); ok {
		http.Error(w, cmp.Or(refusal.Message, refusal.Code), refusal.Status)
		return
	}
	if refusal.Code == sprites.CodeShortage {
		w.Header().Set("Retry-After", "1")
	}
	if refusal.Status >= 500 {
		h.core.Config.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
	}
	wire.WriteError(w, refusal)
}

// Unopened answers for a host that could not be opened: every request is refused with the reason.
func Unopened(why error) http.Handler {
	refusal := wire.Refuse(http.StatusInternalServerError, sprites.CodeUnavailable, why.Error())
	if errors.Is(why, records.ErrDamaged) {
		refusal.Code = sprites.CodeDamaged
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wire.WriteError(w, refusal) })
}

// insideRoutes are the calls of a sprite about itself.
func (h *Host) insideRoutes(s *fleet.Inside, id, name string) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				h.writeRefusal(w, r, err)
			}
		})
	}
	handle("POST /v1/checkpoint", func(w http.ResponseWriter, r *http.Request) error {
		if !s.Checkpoints.Allow() {
			w.Header().Set("Retry-After", "1")
			return wire.Refuse(http.StatusTooManyRequests, "checkpoint_rate_limited", "too many checkpoints at once; try again in a second")
		}
		if points, err := h.core.Store.Checkpoints(id); err == nil && len(points) >= s.MostCheckpoints {
			return wire.Refuse(http.StatusConflict, "too_many_checkpoints", fmt.Sprintf("the sprite has %d checkpoints; whoever owns it can remove some: lattice sprite checkpoints rm %s ID", len(points), name))
		}
		return h.history.CheckpointNamed(w, r, name, true)
	})
	handle("GET /v1/checkpoints", func(w http.ResponseWriter, r *http.Request) error {
		return h.history.ListNamed(w, name, history.CheckpointList{})
	})
	handle("GET /v1/checkpoints/{id}", func(w http.ResponseWriter, r *http.Request) error {
		return h.history.GetNamed(w, name, r.PathValue("id"))
	})
	h.catalog.TaskRoutesOf(handle, "/v1/tasks", func(*http.Request) (*fleet.Sprite, func(), error) {
		rec, err := h.core.Store.Sprite(name)
		if err == nil && rec.ID != id {
			err = records.ErrNoSprite
		}
		if err != nil {
			return nil, nil, err
		}
		s, err := h.fleet.Runtime(rec)
		return s, func() {}, err
	})
	// Calls that are those of the API, about this sprite.
	own := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) error {
			if rec, err := h.core.Store.Sprite(name); err != nil || rec.ID != id {
				return errors.Join(records.ErrNoSprite, err)
			}
			r.SetPathValue("name", name)
			return fn(w, r)
		})
	}
	for _, version := range []string{"", "/v1"} {
		own("GET "+version+"/info", h.catalog.SpriteInfo)
		own("GET "+version+"/policy/network", h.policies.GetNetworkPolicy)
	}
	h.services.Routes(own, "/v1/services")
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return wire.Refuse(http.StatusNotFound, "not_found", "from inside, a sprite can create and list its checkpoints, keep its tasks and services, read its network policy, and nothing else")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sprite-Version", wire.Version)
		s.Calls.Add(1) // before close waits: close first waits for every connection's goroutine to be refused
		defer s.Calls.Done()
		if !s.Requests.Allow() {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			wire.WriteError(w, wire.Refuse(http.StatusTooManyRequests, "rate_limited", "too many requests at once; try again in a second"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
