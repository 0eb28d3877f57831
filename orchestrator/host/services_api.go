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
	sprites serviceFinder
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

func (a *serviceAPI) listServices(w http.ResponseWriter, r *http.Request) error {
	v, err := a.sprites.servicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, v.list())
	return nil
}

func (a *serviceAPI) getService(w http.ResponseWriter, r *http.Request) error {
	v, err := a.sprites.servicesOf(r.PathValue("name"))
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
	v, err := a.sprites.servicesOf(r.PathValue("name"))
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

// serviceFinder finds the services of a sprite.
type serviceFinder interface {
	// servicesOf does not wake the sprite.
	servicesOf(name string) (*services, error)
	// wakeServices starts the sandbox of the sprite, which stays up until done is called.
	wakeServices(ctx context.Context, name string) (v *services, done func(), err error)
}

func newServiceAPI(c *core, sprites serviceFinder) *serviceAPI {
	return &serviceAPI{core: c, sprites: sprites}
}
