package host

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Defaults and bounds of the calls about services.
const (
	followDefault = 5 * time.Second
	followMost    = 24 * time.Hour
	stopMost      = 5 * time.Minute // between TERM and KILL
	linesDefault  = 100
	linesMost     = 100_000
)

// serviceAPI answers the calls about services.
type serviceAPI struct {
	*core
	sprites access
}

// serviceRoutes are the calls about the services of a sprite, below at.
func (a *serviceAPI) serviceRoutes(handle func(string, func(http.ResponseWriter, *http.Request) error), at string) {
	handle("GET "+at, a.listServices)
	handle("GET "+at+"/{service}", a.getService)
	handle("PUT "+at+"/{service}", a.putService)
	handle("DELETE "+at+"/{service}", a.deleteService)
	handle("POST "+at+"/signal", a.signalService)
	handle("POST "+at+"/{service}/start", a.startService)
	handle("POST "+at+"/{service}/restart", a.restartService)
	handle("POST "+at+"/{service}/stop", a.stopService)
	handle("GET "+at+"/{service}/logs", a.serviceLogs)
}

// serviceEnv is the environment of all services of a sprite, before their own.
func (fl *fleet) serviceEnv(rec spriteRecord, box *sandbox.Box) []string {
	var own []string
	for k, v := range rec.Environment {
		own = append(own, k+"="+v)
	}
	return environment(box.BaseEnv(), fl.cfg.Env, translatedEnv(box), own)
}

// resume starts the sprite's sandbox if it has services to run, which then start with it. The caller is alone in the gate.
func (s *sprite) resume(name string) {
	all, err := s.fleet.store.services(s.id)
	if err == nil && !slices.ContainsFunc(sortedServices(all), func(spec serviceSpec) bool { return !spec.Stopped }) {
		return
	}
	var rec spriteRecord
	if err == nil {
		rec, err = s.fleet.store.sprite(name)
	}
	if err == nil {
		s.mu.Lock()
		_, err = s.up(rec)
		s.mu.Unlock()
	}
	if err != nil { // they start with the next call that needs the sandbox
		s.fleet.cfg.Log.Warn().Err(err).Str("sprite", name).Msg("bring the sprite's services back")
	}
}

// servicesOf finds the services of a sprite without waking it.
func (a *serviceAPI) servicesOf(name string) (*services, error) {
	rec, err := a.store.sprite(name)
	if err != nil {
		return nil, err
	}
	s, err := a.sprites.runtime(rec)
	if err != nil {
		return nil, err
	}
	v := s.services
	v.mu.Lock()
	defer v.mu.Unlock()
	return v, v.load()
}

// wakeServices is servicesOf of a sprite whose sandbox is up until done is called.
func (a *serviceAPI) wakeServices(ctx context.Context, name string) (v *services, done func(), err error) {
	s, _, leave, err := a.sprites.use(ctx, name)
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
		at := s.started.UTC()
		state.StartedAt = &at
	}
	if !s.next.IsZero() {
		at := s.next.UTC()
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

func (a *serviceAPI) listServices(w http.ResponseWriter, r *http.Request) error {
	v, err := a.servicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, v.list())
	return nil
}

func (a *serviceAPI) getService(w http.ResponseWriter, r *http.Request) error {
	v, err := a.servicesOf(r.PathValue("name"))
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

// serviceLogs answers with the last lines of a log, also of a service that is deleted, and with what follows.
func (a *serviceAPI) serviceLogs(w http.ResponseWriter, r *http.Request) error {
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
	v, err := a.servicesOf(r.PathValue("name"))
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
