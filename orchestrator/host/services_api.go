package host

import (
	"context"
	"net/http"
	"strconv"
	"time"
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
