package host

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func (a *spriteAPI) createSprite(w http.ResponseWriter, r *http.Request) error {
	var in sprites.Create
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if err := checkSpriteName(in.Name); err != nil {
		return err
	}
	if err := checkCreate(&in); err != nil {
		return err
	}
	if err := a.checkNew(in.Name, in.Labels); err != nil {
		return err
	}
	if err := a.confiner.requireIsolation(in.Name, sandbox.Level(in.MinIsolation)); err != nil {
		return err
	}
	if err := a.checkRoom(); err != nil {
		return err
	}
	if err := a.admitCreation(r.Context(), in.WaitForCapacity); err != nil {
		return err
	}
	tools, err := a.confiner.checkTools(in.Tools)
	if err != nil {
		return err
	}
	base, err := a.skills.skillsBase(in.Spritekit)
	if err != nil {
		return err
	}
	skills, err := a.skills.keepSkills(cmp.Or(base, a.cfg.Skills), in.Skills)
	if err != nil {
		return err
	}
	if err := a.network.checkHostPorts(in.HostPorts); err != nil {
		return err
	}
	digest, done, err := a.images.takeImage(r.Context(), in.Image, in.Name)
	if err != nil {
		return err
	}
	defer done()
	root, err := a.layers.newRoot(r.Context(), digest)
	if err != nil {
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	now := a.now()
	rec := spriteRecord{
		ID: "sprite-" + ulid.Make().String(), Name: in.Name, Tree: root.ID, Labels: in.Labels, Environment: in.Environment,
		URLSettings: *in.URLSettings, Config: in.Config, Runtime: in.Runtime, MinIsolation: sandbox.Level(in.MinIsolation), Network: egress.Preset(in.Network), HostPorts: in.HostPorts,
		Tools: tools, Skills: skills, SkillsBase: base, Image: digest,
		CreatedAt: now, UpdatedAt: now,
	}
	if err := a.store.createSprite(rec, root); err != nil {
		a.layers.abandon(root)
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	a.step("created")
	a.cfg.Log.Info().Str("sprite", rec.Name).Str("mode", a.confiner.confined().text).Msg("sprite created")
	writeJSON(w, http.StatusCreated, a.created(rec))
	return nil
}

func (a *spriteAPI) deleteSprite(w http.ResponseWriter, r *http.Request) error {
	s, rec, leave, err := a.fleet.enter(r.Context(), r.PathValue("name"), alone)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.stop(); err != nil {
		return fmt.Errorf("delete sprite %s: end its sandbox: %w", rec.Name, err)
	}
	garbage, err := a.store.deleteSprite(rec.Name, a.layers.isMounted)
	if err != nil {
		return fmt.Errorf("delete sprite %s: %w", rec.Name, err)
	}
	a.step("deleted")
	a.fleet.changes.tell(rec.Name)
	a.fleet.forget(s)
	leave() // those who wait, calls from inside among them, find the sprite gone
	if err := s.closeSocket(); err != nil {
		a.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("close the sprite's own socket")
	}
	a.layers.discard(garbage...)
	for _, dir := range []string{a.cacheDir(s.id), a.runDir(s.id)} {
		if err := a.trash(dir); err != nil && !os.IsNotExist(err) {
			a.cfg.Log.Warn().Err(err).Str("dir", dir).Msg("move to trash")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// admitCreation refuses a creation that Limits does not allow. A sprite is made to be run: without room for that the
// client may wait until there is some.
func (a *spriteAPI) admitCreation(ctx context.Context, wait bool) error {
	changed := a.fleet.changes.join() // before looking
	defer a.fleet.changes.part(changed)
	err := a.fleet.limits.full()
	for wait && err != nil {
		select {
		case <-changed.some:
		case <-ctx.Done():
			return err
		}
		changed.take()
		err = a.fleet.limits.full()
	}
	if err != nil {
		return err
	}
	return a.fleet.limits.create(a.clock())
}

// checkNew refuses a sprite that cannot be made because of its name or labels.
func (a *spriteAPI) checkNew(name string, labels []string) error {
	if err := checkSpriteName(name); err != nil {
		return err
	}
	if err := checkLabels(labels); err != nil {
		return err
	}
	if _, err := a.store.sprite(name); err == nil {
		return errNameTaken
	}
	return nil
}

// created tells those that watch the list of a new sprite, and describes it as the API does.
func (a *spriteAPI) created(rec spriteRecord) any {
	a.fleet.changes.tell(rec.Name)
	return a.object(rec)
}

func checkSpriteName(name string) error {
	if validName(name) {
		return nil
	}
	return badRequest(fmt.Sprintf("%q is not a sprite name: use 1 to 63 lower-case letters, digits and dashes, not at the ends", name))
}
