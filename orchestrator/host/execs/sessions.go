package execs

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// killGrace is how long a signalled session may take to end unless the request says otherwise.
const killGrace = 10 * time.Second

func noSession(id string) *wire.Error {
	return wire.Refuse(http.StatusNotFound, "session not found: "+id, "")
}

// findSession returns a session that runs, and keeps its sprite awake until release.
func (ea *API) findSession(name, id string) (one *session, release func(), err error) {
	rec, err := ea.Store.Sprite(name)
	if err != nil {
		return nil, nil, err
	}
	s, err := ea.sprites.Runtime(rec)
	if err != nil {
		return nil, nil, err
	}
	if release, err = s.Hold(); err != nil {
		return nil, nil, err
	}
	found, ok := s.Command(id)
	if !ok {
		release()
		return nil, nil, noSession(id)
	}
	return found.(*session), release, nil
}

func (ea *API) listSessions(w http.ResponseWriter, r *http.Request) error {
	rec, err := ea.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	s, err := ea.sprites.Runtime(rec)
	if err != nil {
		return err
	}
	all := []sprites.Session{}
	for _, one := range s.Running() {
		all = append(all, one.(*session).describeSession())
	}
	slices.SortFunc(all, func(a, b sprites.Session) int { return cmp.Compare(a.ID, b.ID) })
	wire.WriteJSON(w, http.StatusOK, map[string]any{"count": len(all), "sessions": all})
	return nil
}

// Kill signals a session and follows it to its end, which it enforces when the time is up. A time of 0 only signals.
func (ea *API) Kill(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	signal := "TERM"
	if text := q.Get("signal"); text != "" {
		signal = program.SignalName(text)
	}
	if !slices.Contains(program.Signals, signal) {
		return wire.BadRequest("unknown signal " + strconv.Quote(signal))
	}
	wait := killGrace
	if text := q.Get("timeout"); text != "" {
		var err error
		if wait, err = wire.ParseDuration(text); err != nil {
			return wire.BadRequest("timeout: " + err.Error())
		}
	}
	id := r.PathValue("session")
	s, release, err := ea.findSession(r.PathValue("name"), id)
	if err != nil {
		if _, ok := errors.AsType[*wire.Error](err); ok && ea.wasSession(id) {
			return wire.Refuse(http.StatusGone, "session has ended: "+id, "")
		}
		return err
	}
	defer release()
	if err := s.proc.Signal(signal); err != nil && !s.Ended() {
		return fmt.Errorf("signal session %s: %w", id, err)
	}
	out := wire.NewLines(w)
	out.Send(map[string]any{
		"type": "signal", "message": fmt.Sprintf("Signaling SIG%s to process group %d", signal, s.proc.PID),
		"signal": "SIG" + signal, "pid": s.proc.PID,
	})
	if wait == 0 {
		out.Send(map[string]any{"type": "complete"})
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.over:
		out.Send(map[string]any{"type": "exited", "message": "Process exited"})
	case <-r.Context().Done():
		return nil
	case <-timer.C:
		out.Send(map[string]any{"type": "timeout", "message": "Process did not exit within " + wait.String()})
		if err := s.proc.Signal("KILL"); err != nil && !s.Ended() {
			out.Send(map[string]any{"type": "error", "message": "kill: " + err.Error()})
			return nil
		}
		select {
		case <-s.over:
		case <-r.Context().Done():
			return nil
		}
		out.Send(map[string]any{"type": "killed", "message": "Process killed"})
	}
	if s.lost != nil {
		out.Send(map[string]any{"type": "error", "message": "the sandbox ended before the command did"})
		return nil
	}
	out.Send(map[string]any{"type": "complete", "exit_code": s.code})
	return nil
}

// wasSession reports whether id was given out since the host started.
func (ea *API) wasSession(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > ea.firstSession && n <= ea.lastSession.Load()
}

// nextSession returns the id of the next session.
func (ea *API) nextSession() string { return strconv.FormatInt(ea.lastSession.Add(1), 10) }

// NumberFrom has sessions get numbers above last.
func (ea *API) NumberFrom(last int64) {
	ea.firstSession = last
	ea.lastSession.Store(last)
}
