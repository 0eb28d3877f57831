package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Restart ends everything that runs in a sprite and starts its sandbox again. Files stay as they are. It helps where the
// sandbox answers no more, and so it does not wait for calls under way: they end with the sandbox.
func (a *API) Restart(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if err := a.endBox(name); err != nil {
		return fmt.Errorf("restart sprite %s: end its sandbox: %w", name, err)
	}
	s, rec, leave, err := a.Fleet.Enter(r.Context(), name, fleet.Alone)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.Stop(); err != nil {
		return fmt.Errorf("restart sprite %s: end its sandbox: %w", name, err)
	}
	_, err = s.StartBox(rec)
	if err != nil {
		return fmt.Errorf("restart sprite %s: %w", name, err)
	}
	a.Config.Log.Info().Str("sprite", name).Msg("restarted")
	wire.WriteJSON(w, http.StatusOK, map[string]string{
		"sprite_name": name, "machine_id": rec.ID, "message": "Sprite " + name + " restarted; its processes ended, its files are as they were",
	})
	return nil
}

// endBox ends the sandbox that a sprite has, if any.
func (a *API) endBox(name string) error {
	rec, err := a.Store.Sprite(name)
	if err != nil {
		return err
	}
	s, err := a.Fleet.Runtime(rec)
	if err != nil {
		return err
	}
	return s.EndBox()
}

// Upgrade has nothing to do: sandboxes are those of the host that runs, from the next start on.
func (a *API) Upgrade(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.Store.Sprite(r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// checkTimeout bounds how long a sprite may take to show that it works.
const checkTimeout = 10 * time.Second

// Check wakes a sprite and finds out whether commands can run in it.
func (a *API) Check(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	rec, err := a.Store.Sprite(name)
	if err != nil {
		return err
	}
	began, started := a.Now(), a.Clock()
	err = a.tryOut(r.Context(), name)
	if _, ok := errors.AsType[*wire.LimitError](err); ok {
		return err
	}
	out := struct {
		Name      string    `json:"sprite_name"`
		ID        string    `json:"sprite_id"`
		Status    string    `json:"status"` // healthy | unhealthy
		Reason    string    `json:"reason,omitempty"`
		CheckedAt time.Time `json:"checked_at"`
		Elapsed   int64     `json:"elapsed"` // milliseconds
	}{Name: name, ID: rec.ID, Status: "healthy", CheckedAt: began, Elapsed: a.Clock().Sub(started).Milliseconds()}
	if err != nil {
		out.Status, out.Reason = "unhealthy", err.Error()
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// tryOut has the sprite start a command. One that it does not have proves as much.
func (a *API) tryOut(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, box, done, err := a.Fleet.Use(ctx, name)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	a.Chores.Go(func() { // ends with the box at the latest
		defer done()
		proc, err := box.Exec(spec.Process{Argv: []string{"true"}, Env: box.Config().BaseEnv(), Dir: "/"})
		if err == nil {
			_, err = proc.Wait()
		}
		if missing := new(spec.StartError); errors.As(err, &missing) {
			err = nil
		}
		answered <- err
	})
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the sandbox has not answered for %s; restart the sprite", checkTimeout)
	}
}
