package services

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// changeServices stores the services as fn changes them, then tells the machine: its commands may depend on the record.
func (v *Set) changeServices(name string, fn func(map[string]records.Service) error, f fact) error {
	v.edits.Lock()
	defer v.edits.Unlock()
	if _, err := v.Store.ChangeServices(name, v.id, fn); err != nil {
		return err
	}
	v.tellMachine(f)
	return nil
}

func (a *API) putService(w http.ResponseWriter, r *http.Request) error {
	length, err := wire.QueryDuration(r, "duration", followDefault, MaxFollow)
	if err != nil {
		return err
	}
	var spec records.Service
	if err := wire.ReadJSON(w, r, &spec); err != nil {
		return err
	}
	spec.Name, spec.Stopped = r.PathValue("service"), false
	if err := checkSpec(&spec); err != nil {
		return err
	}
	name := r.PathValue("name")
	all, err := a.savedServices(name)
	if err != nil {
		return err
	}
	if err := admitService(all, spec); err != nil {
		return err // before anything is woken for it
	}
	v, done, err := a.sprites.WakeServices(r.Context(), name)
	if err != nil {
		return err
	}
	defer done()
	from := v.endPosition(spec.Name)
	err = v.changeServices(name, func(all map[string]records.Service) error {
		if err := admitService(all, spec); err != nil {
			return err
		}
		all[spec.Name] = spec
		return nil
	}, defined{spec})
	if err != nil {
		return err
	}
	v.streamEvents(w, r, spec.Name, from, length, nil)
	return nil
}

func (a *API) savedServices(name string) (map[string]records.Service, error) {
	rec, err := a.Store.Sprite(name)
	if err != nil {
		return nil, err
	}
	return a.Store.Services(rec.ID)
}

// markWanted records that a service, and all that it needs, is to run.
func markWanted(unit string) func(map[string]records.Service) error {
	return func(all map[string]records.Service) error {
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

func (a *API) startService(w http.ResponseWriter, r *http.Request) error {
	return a.run(w, r, func(unit string) fact { return startAsked{unit} })
}

func (a *API) restartService(w http.ResponseWriter, r *http.Request) error {
	return a.run(w, r, func(unit string) fact { return restartAsked{unit, stopGrace} })
}

// run starts or restarts a service, and follows it.
func (a *API) run(w http.ResponseWriter, r *http.Request, f func(string) fact) error {
	length, err := wire.QueryDuration(r, "duration", followDefault, MaxFollow)
	if err != nil {
		return err
	}
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, done, err := a.wakeService(r.Context(), name, unit)
	if err != nil {
		return err
	}
	defer done()
	from := v.endPosition(unit)
	if err := v.changeServices(name, markWanted(unit), f(unit)); err != nil {
		return err
	}
	v.streamEvents(w, r, unit, from, length, nil)
	return nil
}

// wakeService is WakeServices for a service that must exist; nothing is woken for one that does not.
func (a *API) wakeService(ctx context.Context, name, unit string) (*Set, func(), error) {
	v, err := a.sprites.ServicesOf(name)
	if err != nil {
		return nil, nil, err
	}
	if _, err := v.copyState(unit); err != nil {
		return nil, nil, err
	}
	return a.sprites.WakeServices(ctx, name)
}

func (a *API) stopService(w http.ResponseWriter, r *http.Request) error {
	grace, err := wire.QueryDuration(r, "timeout", stopGrace, stopMost)
	if err != nil {
		return err
	}
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, err := a.sprites.ServicesOf(name)
	if err != nil {
		return err
	}
	s, err := v.copyState(unit)
	if err != nil {
		return err
	}
	if !s.wanted && !s.live {
		return notRunning(unit)
	}
	if s.live { // its process may be frozen
		var done func()
		if v, done, err = a.sprites.WakeServices(r.Context(), name); err != nil {
			return err
		}
		defer done()
	}
	from := v.endPosition(unit)
	if err := v.changeServices(name, markStopped(unit), stopAsked{unit, grace}); err != nil {
		return err
	}
	v.streamEvents(w, r, unit, from, MaxFollow, func(s service) bool { return !s.live })
	return nil
}

func notRunning(unit string) error {
	return wire.Refuse(http.StatusConflict, "not_running", "service "+unit+" is not running")
}

// markStopped records that a service is not to run until it is started by request.
func markStopped(unit string) func(map[string]records.Service) error {
	return func(all map[string]records.Service) error {
		s, ok := all[unit]
		if !ok {
			return noService(unit)
		}
		s.Stopped = true
		all[unit] = s
		return nil
	}
}

// deleteService stops a service and forgets it, unless others need it. Its log stays, see retireLog.
func (a *API) deleteService(w http.ResponseWriter, r *http.Request) error {
	name, unit := r.PathValue("name"), r.PathValue("service")
	v, err := a.sprites.ServicesOf(name)
	if err != nil {
		return err
	}
	s, err := v.copyState(unit)
	if err != nil {
		return err
	}
	unneeded := func(all map[string]records.Service) error {
		if _, ok := all[unit]; !ok {
			return noService(unit)
		}
		if by := findDependents(all, unit); len(by) > 0 {
			return wire.Refuse(http.StatusConflict, "service_needed", "service "+unit+" is needed by "+strings.Join(by, ", ")+"; delete these first")
		}
		return nil
	}
	if s.live {
		var done func()
		if v, done, err = a.sprites.WakeServices(r.Context(), name); err != nil {
			return err
		}
		defer done()
		err = v.changeServices(name, func(all map[string]records.Service) error {
			if err := unneeded(all); err != nil {
				return err
			}
			return markStopped(unit)(all)
		}, stopAsked{unit, stopGrace})
		if err != nil {
			return err
		}
		if err := v.awaitState(r.Context(), unit, func(s service) bool { return !s.live }); err != nil {
			return err
		}
	}
	err = v.changeServices(name, func(all map[string]records.Service) error {
		if err := unneeded(all); err != nil {
			return err
		}
		delete(all, unit)
		return nil
	}, removed{unit})
	if err != nil {
		return err
	}
	v.retireLog(unit)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) signalService(w http.ResponseWriter, r *http.Request) error {
	var in struct{ Name, Signal string }
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	signal := program.SignalName(in.Signal)
	if !slices.Contains(program.Signals, signal) {
		return wire.BadRequest("unknown signal " + strconv.Quote(in.Signal))
	}
	name := r.PathValue("name")
	v, done, err := a.wakeService(r.Context(), name, in.Name)
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
