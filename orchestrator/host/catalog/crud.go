package catalog

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func (a *API) CreateSprite(w http.ResponseWriter, r *http.Request) error {
	var in sprites.Create
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := checkSpriteName(in.Name); err != nil {
		return err
	}
	if err := checkCreate(&in); err != nil {
		return err
	}
	if err := a.CheckNew(in.Name, in.Labels); err != nil {
		return err
	}
	if err := a.Confiner.RequireIsolation(in.Name, spec.Level(in.MinIsolation)); err != nil {
		return err
	}
	if err := a.CheckSpace(); err != nil {
		return err
	}
	if err := a.AdmitCreation(r.Context(), in.WaitForCapacity); err != nil {
		return err
	}
	tools, err := a.Confiner.CheckTools(in.Tools)
	if err != nil {
		return err
	}
	base, err := a.Skills.Base(in.Spritekit)
	if err != nil {
		return err
	}
	skills, err := a.Skills.Keep(cmp.Or(base, a.Config.Skills), in.Skills)
	if err != nil {
		return err
	}
	if err := a.Network.CheckHostPorts(in.HostPorts); err != nil {
		return err
	}
	digest, done, err := a.Images.takeImage(r.Context(), in.Image, in.Name)
	if err != nil {
		return err
	}
	defer done()
	root, err := a.Layers.NewRoot(r.Context(), digest)
	if err != nil {
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	now := a.Now()
	rec := records.Sprite{
		ID: "sprite-" + ulid.Make().String(), Name: in.Name, Tree: root.ID, Labels: in.Labels, Environment: in.Environment,
		URLSettings: *in.URLSettings, Config: in.Config, Runtime: in.Runtime, MinIsolation: spec.Level(in.MinIsolation), Network: egress.Preset(in.Network), HostPorts: in.HostPorts,
		Tools: tools, Skills: skills, SkillsBase: base, Image: digest,
		CreatedAt: now, UpdatedAt: now,
	}
	if err := a.Store.CreateSprite(rec, root); err != nil {
		a.Layers.Abandon(root)
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	a.Step("created")
	a.Config.Log.Info().Str("sprite", rec.Name).Str("mode", a.Confiner.Confined().Text).Msg("sprite created")
	wire.WriteJSON(w, http.StatusCreated, a.Created(rec))
	return nil
}

func (a *API) DeleteSprite(w http.ResponseWriter, r *http.Request) error {
	s, rec, leave, err := a.Fleet.Enter(r.Context(), r.PathValue("name"), fleet.Alone)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.Stop(); err != nil {
		return fmt.Errorf("delete sprite %s: end its sandbox: %w", rec.Name, err)
	}
	garbage, err := a.Store.DeleteSprite(rec.Name, a.Layers.IsMounted)
	if err != nil {
		return fmt.Errorf("delete sprite %s: %w", rec.Name, err)
	}
	a.Step("deleted")
	a.Fleet.Changes.Tell(rec.Name)
	a.Fleet.Forget(s)
	leave() // those who wait, calls from inside among them, find the sprite gone
	if err := s.CloseSocket(); err != nil {
		a.Config.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("close the sprite's own socket")
	}
	a.Layers.Discard(garbage...)
	for _, dir := range []string{a.CacheDir(s.ID), a.RunDir(s.ID)} {
		if err := a.Trash(dir); err != nil && !os.IsNotExist(err) {
			a.Config.Log.Warn().Err(err).Str("dir", dir).Msg("move to trash")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// AdmitCreation refuses a creation that Limits does not allow. A sprite is made to be run: without room for that the
// client may wait until there is some.
func (a *API) AdmitCreation(ctx context.Context, wait bool) error {
	changed := a.Fleet.Changes.Join() // before looking
	defer a.Fleet.Changes.Part(changed)
	err := a.Fleet.Limits.CheckRunning()
	for wait && err != nil {
		select {
		case <-changed.Some:
		case <-ctx.Done():
			return err
		}
		changed.Take()
		err = a.Fleet.Limits.CheckRunning()
	}
	if err != nil {
		return err
	}
	return a.Fleet.Limits.CountCreation(a.Clock())
}

// CheckNew refuses a sprite that cannot be made because of its name or labels.
func (a *API) CheckNew(name string, labels []string) error {
	if err := checkSpriteName(name); err != nil {
		return err
	}
	if err := checkLabels(labels); err != nil {
		return err
	}
	if _, err := a.Store.Sprite(name); err == nil {
		return records.ErrNameTaken
	}
	return nil
}

// Created tells those that watch the list of a new sprite, and describes it as the API does.
func (a *API) Created(rec records.Sprite) any {
	a.Fleet.Changes.Tell(rec.Name)
	return a.object(rec)
}

func checkSpriteName(name string) error {
	if records.ValidName(name) {
		return nil
	}
	return wire.BadRequest(fmt.Sprintf("%q is not a sprite name: use 1 to 63 lower-case letters, digits and dashes, not at the ends", name))
}
