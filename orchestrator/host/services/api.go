// Package services keeps the services of sprites running, and answers the calls about them. The state machine in
// machine.go decides, driver.go acts.
package services

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Defaults and bounds of the calls about services.
const (
	followDefault = 5 * time.Second
	MaxFollow     = 24 * time.Hour
	stopMost      = 5 * time.Minute // between TERM and KILL
	linesDefault  = 100
	linesMost     = 100_000
)

// API answers the calls about services.
type API struct {
	*core.Core
	sprites world
}

// Routes are the calls about the services of a sprite, below at.
func (a *API) Routes(handle func(string, func(http.ResponseWriter, *http.Request) error), at string) {
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

func (a *API) listServices(w http.ResponseWriter, r *http.Request) error {
	v, err := a.sprites.ServicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, v.List())
	return nil
}

func (a *API) getService(w http.ResponseWriter, r *http.Request) error {
	v, err := a.sprites.ServicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	s, err := v.copyState(r.PathValue("service"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, s.describeService())
	return nil
}

// serviceLogs answers with the last lines of a log, also of a deleted service, and then with new lines.
func (a *API) serviceLogs(w http.ResponseWriter, r *http.Request) error {
	length, err := wire.QueryDuration(r, "duration", 0, MaxFollow)
	if err != nil {
		return err
	}
	lines := linesDefault
	if text := r.URL.Query().Get("lines"); text != "" {
		if lines, err = strconv.Atoi(text); err != nil || lines < 0 {
			return wire.BadRequest("lines must be a number from 0 on, not " + strconv.Quote(text))
		}
		lines = min(lines, linesMost)
	}
	v, err := a.sprites.ServicesOf(r.PathValue("name"))
	if err != nil {
		return err
	}
	unit := r.PathValue("service")
	if !serviceName().MatchString(unit) {
		return noService(unit)
	}
	v.mu.Lock()
	log, known := v.logOf(unit), v.machine.services[unit] != nil
	v.mu.Unlock()
	events, from, err := log.readTail(lines)
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
	out := wire.NewLines(w)
	if out.SendAll(events) {
		v.relayEvents(r.Context(), out, unit, from, length, nil)
	}
	return nil
}

// world finds the services of a sprite.
type world interface {
	// ServicesOf does not wake the sprite.
	ServicesOf(name string) (*Set, error)
	// WakeServices starts the sandbox of the sprite, which stays up until done is called.
	WakeServices(ctx context.Context, name string) (v *Set, done func(), err error)
}

func NewAPI(c *core.Core, sprites world) *API {
	return &API{Core: c, sprites: sprites}
}
