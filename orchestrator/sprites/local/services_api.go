package local

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// Defaults and bounds of the calls about services.
const (
	followDefault = 5 * time.Second
	followMost    = 24 * time.Hour
	stopMost      = 5 * time.Minute // between TERM and KILL
	linesDefault  = 100
	linesMost     = 100_000
)

// serviceRoutes are the calls about services, and those that reach what listens in a sprite.
func (h *Host) serviceRoutes(handle func(string, func(http.ResponseWriter, *http.Request) error)) {
	handle("GET /v1/sprites/{name}/services", h.listServices)
	handle("GET /v1/sprites/{name}/services/{service}", h.getService)
	handle("PUT /v1/sprites/{name}/services/{service}", h.putService)
	handle("DELETE /v1/sprites/{name}/services/{service}", h.deleteService)
	handle("POST /v1/sprites/{name}/services/signal", h.signalService)
	handle("POST /v1/sprites/{name}/services/{service}/start", h.startService)
	handle("POST /v1/sprites/{name}/services/{service}/restart", h.restartService)
	handle("POST /v1/sprites/{name}/services/{service}/stop", h.stopService)
	handle("GET /v1/sprites/{name}/services/{service}/logs", h.serviceLogs)
	handle("GET /v1/sprites/{name}/proxy", h.proxy)
	handle("GET /v1/sprites/{name}/ports/watch", h.watchPorts)
	handle("POST /v1/sprites/{name}/url", h.inviteURL)
}

// serviceEnv is the environment of all services of a sprite, before their own.
func (h *Host) serviceEnv(rec spriteRecord, box *sandbox.Box) []string {
	var own []string
	for k, v := range rec.Environment {
		own = append(own, k+"="+v)
	}
	return environment(box.BaseEnv(), h.cfg.Env, translatedEnv(box), own)
}

// resume starts the sprite's sandbox if it has services to run, which then start with it. The caller is alone in the gate.
func (s *sprite) resume(name string) {
	all, err := s.host.store.services(s.id)
	if err == nil && !slices.ContainsFunc(sortedServices(all), func(spec serviceSpec) bool { return !spec.Stopped }) {
		return
	}
	var rec spriteRecord
	if err == nil {
		rec, err = s.host.store.sprite(name)
	}
	if err == nil {
		s.mu.Lock()
		_, err = s.up(rec)
		s.mu.Unlock()
	}
	if err != nil { // they start with the next call that needs the sandbox
		s.host.cfg.Log.Warn().Err(err).Str("sprite", name).Msg("bring the sprite's services back")
	}
}

// servicesOf finds the services of a sprite without waking it.
func (h *Host) servicesOf(name string) (*services, error) {
	rec, err := h.store.sprite(name)
	if err != nil {
		return nil, err
	}
	s, err := h.runtime(rec)
	if err != nil {
		return nil, err
	}
	v := s.services
	v.mu.Lock()
	defer v.mu.Unlock()
	return v, v.load()
}

// wakeServices is servicesOf of a sprite whose sandbox is up until done is called.
func (h *Host) wakeServices(ctx context.Context, name string) (v *services, done func(), err error) {
	s, _, leave, err := h.use(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	release, err := s.hold()
	leave() // whoever follows a service must not keep the sprite from being restored
	if err != nil {
		return nil, nil, err
	}
	return s.services, release, nil
}

// object describes a service as the API does. mu is held.
func (s *service) object() sprites.Service {
	state := sprites.ServiceState{Name: s.spec.Name, Status: string(s.status), PID: s.pid, Error: s.problem, RestartCount: s.restarts}
	if !s.started.IsZero() {
		at := s.started
		state.StartedAt = &at
	}
	if !s.next.IsZero() {
		at := s.next
		state.NextRestartAt = &at
	}
	return sprites.Service{
		Name: s.spec.Name, Cmd: s.spec.Cmd, Args: s.spec.Args, Env: s.spec.Env, Dir: s.spec.Dir, Needs: s.spec.Needs, HTTPPort: s.spec.HTTPPort,
		State: &state,
	}
}

// list describes all services, in the order of their names.
func (v *services) list() []sprites.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := []sprites.Service{}
	for _, name := range v.machine.names() {
		all = append(all, v.machine.services[name].object())
	}
	return all
}

// look returns a copy of a service's state.
func (v *services) look(name string) (service, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.machine.services[name]
	if s == nil {
		return service{}, noService(name)
	}
	return *s, nil
}

func noService(name string) error {
	return &apiError{http.StatusNotFound, errNoService.Error() + ": " + name, ""}
}

func (h *Host) listServices(w http.ResponseWriter, r *http.Request) error {
	v, err := h.servicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, v.list())
	return nil
}

func (h *Host) getService(w http.ResponseWriter, r *http.Request) error {
	v, err := h.servicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	s, err := v.look(r.PathValue("service"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.object())
	return nil
}

// change records what fn makes of the sprite's services, then tells the machine: what follows it may depend on the record.
func (v *services) change(name string, fn func(map[string]serviceSpec) error, f fact) error {
	v.edits.Lock()
	defer v.edits.Unlock()
	if _, err := v.host.store.changeServices(name, v.id, fn); err != nil {
		return err
	}
	v.tell(f)
	return nil
}

func (h *Host) putService(w http.ResponseWriter, r *http.Request) error {
	length, err := durationOf(r, "duration", followDefault, followMost)
	if err != nil {
		return err
	}
	var spec serviceSpec
	if err := readJSON(w, r, &spec); err != nil {
		return err
	}
	spec.Name, spec.Stopped = r.PathValue("service"), false
	if err := spec.check(); err != nil {
		return err
	}
	name := r.PathValue("name")
	all, err := h.savedServices(name)
	if err != nil {
		return err
	}
	if err := admitService(all, spec); err != nil {
		return err // before anything is woken for it
	}
	v, done, err := h.wakeServices(r.Context(), name)
	if err != nil {
		return err
	}
	defer done()
	from := v.end(spec.Name)
	err = v.change(name, func(all map[string]serviceSpec) error {
		if err := admitService(all, spec); err != nil {
			return err
		}
		all[spec.Name] = spec
		return nil
	}, defined{spec})
	if err != nil {
		return err
	}
	v.stream(w, r, spec.Name, from, length, nil)
	return nil
}

func (h *Host) savedServices(name string) (map[string]serviceSpec, error) {
	rec, err := h.store.sprite(name)
	if err != nil {
		return nil, err
	}
	return h.store.services(rec.ID)
}

// wanted records that a service, and all that it needs, is to run.
func wanted(unit string) func(map[string]serviceSpec) error {
	return func(all map[string]serviceSpec) error {
		if _, ok := all[unit]; !ok {
			return noService(unit)
		}
		for _, name := range needsOf(all, unit) {
			s := all[name]
			s.Stopped = false
			all[name] = s
		}
		return nil
	}
}

func (h *Host) startService(w http.ResponseWriter, r *http.Request) error {
	return h.run(w, r, func(unit string) fact { return startAsked{unit} })
}

func (h *Host) restartService(w http.ResponseWriter, r *http.Request) error {
	return h.run(w, r, func(unit string) fact { return restartAsked{unit, stopGrace} })
}

// run starts a service, anew or not, and follows it.
func (h *Host) run(w http.ResponseWriter, r *http.Request, f func(string) fact) error {
	length, err := durationOf(r, "duration", followDefault, followMost)
	if err != nil {
		return err
	}
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, done, err := h.wakeService(r.Context(), name, unit)
	if err != nil {
		return err
	}
	defer done()
	from := v.end(unit)
	if err := v.change(name, wanted(unit), f(unit)); err != nil {
		return err
	}
	v.stream(w, r, unit, from, length, nil)
	return nil
}

// wakeService is wakeServices for a service that must exist; nothing is woken for one that does not.
func (h *Host) wakeService(ctx context.Context, name, unit string) (*services, func(), error) {
	v, err := h.servicesOf(name)
	if err != nil {
		return nil, nil, err
	}
	if _, err := v.look(unit); err != nil {
		return nil, nil, err
	}
	return h.wakeServices(ctx, name)
}

func (h *Host) stopService(w http.ResponseWriter, r *http.Request) error {
	grace, err := durationOf(r, "timeout", stopGrace, stopMost)
	if err != nil {
		return err
	}
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, err := h.servicesOf(name)
	if err != nil {
		return err
	}
	s, err := v.look(unit)
	if err != nil {
		return err
	}
	if !s.wanted && !s.live {
		return notRunning(unit)
	}
	if s.live { // its process may be frozen
		var done func()
		if v, done, err = h.wakeServices(r.Context(), name); err != nil {
			return err
		}
		defer done()
	}
	from := v.end(unit)
	if err := v.change(name, stopped(unit), stopAsked{unit, grace}); err != nil {
		return err
	}
	v.stream(w, r, unit, from, followMost, func(s service) bool { return !s.live })
	return nil
}

func notRunning(unit string) error {
	return &apiError{http.StatusConflict, "not_running", "service " + unit + " is not running"}
}

// stopped records that a service is not to run until it is started by request.
func stopped(unit string) func(map[string]serviceSpec) error {
	return func(all map[string]serviceSpec) error {
		s, ok := all[unit]
		if !ok {
			return noService(unit)
		}
		s.Stopped = true
		all[unit] = s
		return nil
	}
}

// deleteService stops a service and forgets it, unless others need it. Its log stays.
func (h *Host) deleteService(w http.ResponseWriter, r *http.Request) error {
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, err := h.servicesOf(name)
	if err != nil {
		return err
	}
	s, err := v.look(unit)
	if err != nil {
		return err
	}
	unneeded := func(all map[string]serviceSpec) error {
		if _, ok := all[unit]; !ok {
			return noService(unit)
		}
		if by := dependents(all, unit); len(by) > 0 {
			return &apiError{http.StatusConflict, "service_needed", "service " + unit + " is needed by " + strings.Join(by, ", ") + "; delete these first"}
		}
		return nil
	}
	if s.live {
		var done func()
		if v, done, err = h.wakeServices(r.Context(), name); err != nil {
			return err
		}
		defer done()
		err = v.change(name, func(all map[string]serviceSpec) error {
			if err := unneeded(all); err != nil {
				return err
			}
			return stopped(unit)(all)
		}, stopAsked{unit, stopGrace})
		if err != nil {
			return err
		}
		if err := v.await(r.Context(), unit, func(s service) bool { return !s.live }); err != nil {
			return err
		}
	}
	err = v.change(name, func(all map[string]serviceSpec) error {
		if err := unneeded(all); err != nil {
			return err
		}
		delete(all, unit)
		return nil
	}, removed{unit})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Host) signalService(w http.ResponseWriter, r *http.Request) error {
	var in struct{ Name, Signal string }
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	signal := signalName(in.Signal)
	if !slices.Contains(signals, signal) {
		return badRequest("unknown signal " + strconv.Quote(in.Signal))
	}
	name := r.PathValue("name")
	v, done, err := h.wakeService(r.Context(), name, in.Name)
	if err != nil {
		return err
	}
	defer done()
	v.mu.Lock()
	proc := v.procs[in.Name]
	v.mu.Unlock()
	if proc == nil {
		return notRunning(in.Name)
	}
	if err := proc.Signal(signal); err != nil {
		return fmt.Errorf("signal service %s: %w", in.Name, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// serviceLogs answers with the last lines of a log, also of a service that is deleted, and with what follows.
func (h *Host) serviceLogs(w http.ResponseWriter, r *http.Request) error {
	length, err := durationOf(r, "duration", 0, followMost)
	if err != nil {
		return err
	}
	lines := linesDefault
	if text := r.URL.Query().Get("lines"); text != "" {
		if lines, err = strconv.Atoi(text); err != nil || lines < 0 {
			return badRequest("lines must be a number from 0 on, not " + strconv.Quote(text))
		}
		lines = min(lines, linesMost)
	}
	v, err := h.servicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	unit := r.PathValue("service")
	if !serviceName.MatchString(unit) {
		return noService(unit)
	}
	v.mu.Lock()
	log, known := v.log(unit), v.machine.services[unit] != nil
	v.mu.Unlock()
	events, from, err := log.tail(lines)
	if err != nil {
		return err
	}
	if !known {
		v.mu.Lock()
		delete(v.logs, unit) // nothing is added to it any more
		v.mu.Unlock()
		if len(events) == 0 {
			return noService(unit)
		}
		length = 0
	}
	out := newLines(w)
	if out.sendAll(events) {
		v.relay(r.Context(), out, unit, from, length, nil)
	}
	return nil
}

// durationOf reads a duration from the query.
func durationOf(r *http.Request, name string, otherwise, most time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, badRequest(name + ": " + err.Error())
	}
	return min(d, most), nil
}
