package catalog

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A task is a reason to stay awake that a sprite gives itself through its own socket, or is given, such as work in the background
// that no client is attached to. It ends by itself, and with the sandbox.
const (
	maxTaskTime = time.Hour // also where the request does not say
	maxTasks    = 100
	maxTaskName = 128 // bytes
)

// lifespan is a duration such as "10m", or a number of seconds.
type lifespan time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (l *lifespan) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	if text == "null" || text == "" {
		return nil
	}
	d, err := wire.ParseDuration(text)
	*l = lifespan(d)
	return err
}

// taskRequest is the body of a new or a changed task.
type taskRequest struct {
	Name   string   `json:"name"`
	Expire lifespan `json:"expire"`
}

func readTask(w http.ResponseWriter, r *http.Request, name string) (in taskRequest, err error) {
	in.Name = name
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return in, err
	}
	if name != "" && in.Name != name {
		return in, wire.BadRequest("the name in the body is not the one in the path")
	}
	if in.Expire == 0 {
		in.Expire = lifespan(maxTaskTime)
	}
	switch {
	case in.Name == "" || len(in.Name) > maxTaskName:
		return in, wire.BadRequest(fmt.Sprintf("a task has a name of 1 to %d bytes", maxTaskName))
	case time.Duration(in.Expire) > maxTaskTime:
		return in, wire.BadRequest(fmt.Sprintf("a task lasts %s at most; renew it with PUT before it ends", maxTaskTime))
	}
	return in, nil
}

// TaskRoutes are the tasks of all sprites, for who uses the API. A new task starts the sprite: nothing else can be kept
// awake.
func (a *API) TaskRoutes(handle func(string, func(http.ResponseWriter, *http.Request) error)) {
	a.TaskRoutesOf(handle, "/v1/sprites/{name}/tasks", func(r *http.Request) (*fleet.Sprite, func(), error) {
		name := r.PathValue("name")
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			s, _, done, err := a.Fleet.Use(r.Context(), name)
			return s, done, err
		}
		rec, err := a.Store.Sprite(name)
		if err != nil {
			return nil, nil, err
		}
		s, err := a.Fleet.Runtime(rec)
		return s, func() {}, err
	})
}

// TaskRoutesOf are the tasks of the sprite that get returns, which is used until done.
func (a *API) TaskRoutesOf(handle func(string, func(http.ResponseWriter, *http.Request) error), at string, get func(*http.Request) (s *fleet.Sprite, done func(), err error)) {
	// with runs fn on the tasks that have not ended; the sprite is awake until it returns. fn must not wait: see [fleet.Sprite.ChangeTasks].
	with := func(r *http.Request, fn func(tasks map[string]fleet.Task, now time.Time) error) error {
		s, done, err := get(r)
		if err != nil {
			return err
		}
		defer done()
		return s.ChangeTasks(fn)
	}
	describe := func(name string, t fleet.Task, now time.Time) sprites.Task {
		left := t.Until.Sub(now)
		return sprites.Task{
			Name: name, Expire: left.Round(time.Second).String(), StartedAt: a.Now().Add(t.Started.Sub(now)), ExpiresAt: a.Now().Add(left),
		}
	}
	// put answers outside of with: a sprite that does not read its answer must not block calls about its state.
	put := func(w http.ResponseWriter, r *http.Request, in taskRequest, status int, allowed func(known bool) error) error {
		var made sprites.Task
		err := with(r, func(tasks map[string]fleet.Task, now time.Time) error {
			kept, known := tasks[in.Name]
			if err := allowed(known); err != nil {
				return err
			}
			if !known && len(tasks) == maxTasks {
				return wire.Refuse(http.StatusTooManyRequests, "too_many_tasks", fmt.Sprintf("a sprite has at most %d tasks; delete one", maxTasks))
			}
			if !known {
				kept.Started = now
			}
			kept.Until = now.Add(time.Duration(in.Expire))
			tasks[in.Name] = kept
			made = describe(in.Name, kept, now)
			return nil
		})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, status, made)
		return nil
	}
	none := func(name string) error { return wire.Refuse(http.StatusNotFound, "task not found: "+name, "") }

	handle("GET "+at, func(w http.ResponseWriter, r *http.Request) error {
		all := []sprites.Task{}
		err := with(r, func(tasks map[string]fleet.Task, now time.Time) error {
			for _, name := range slices.Sorted(maps.Keys(tasks)) {
				all = append(all, describe(name, tasks[name], now))
			}
			return nil
		})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, map[string]any{"tasks": all})
		return nil
	})
	handle("POST "+at, func(w http.ResponseWriter, r *http.Request) error {
		in, err := readTask(w, r, "")
		if err != nil {
			return err
		}
		return put(w, r, in, http.StatusCreated, func(known bool) error {
			if known {
				return wire.Refuse(http.StatusConflict, "task_exists", "there is a task "+in.Name+" already; renew it with PUT")
			}
			return nil
		})
	})
	handle("PUT "+at+"/{task}", func(w http.ResponseWriter, r *http.Request) error {
		in, err := readTask(w, r, r.PathValue("task"))
		if err != nil {
			return err
		}
		return put(w, r, in, http.StatusOK, func(bool) error { return nil })
	})
	handle("GET "+at+"/{task}", func(w http.ResponseWriter, r *http.Request) error {
		var found sprites.Task
		err := with(r, func(tasks map[string]fleet.Task, now time.Time) error {
			name := r.PathValue("task")
			kept, ok := tasks[name]
			if !ok {
				return none(name)
			}
			found = describe(name, kept, now)
			return nil
		})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, found)
		return nil
	})
	handle("DELETE "+at+"/{task}", func(w http.ResponseWriter, r *http.Request) error {
		err := with(r, func(tasks map[string]fleet.Task, _ time.Time) error {
			name := r.PathValue("task")
			if _, ok := tasks[name]; !ok {
				return none(name)
			}
			delete(tasks, name)
			return nil
		})
		if err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}
