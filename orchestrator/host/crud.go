package host

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// spriteName is what a sprite may be called: it is part of URLs.
var spriteName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (h *Host) createSprite(w http.ResponseWriter, r *http.Request) error {
	var in sprites.Create
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if !spriteName.MatchString(in.Name) {
		return badRequest(fmt.Sprintf("%q is no sprite name: use 1 to 63 lower-case letters, digits and dashes, not at the ends", in.Name))
	}
	if err := checkCreate(&in); err != nil {
		return err
	}
	if _, err := h.store.sprite(in.Name); err == nil {
		return errNameTaken
	}
	if err := h.confiner.requireIsolation(in.Name, sandbox.Level(in.MinIsolation)); err != nil {
		return err
	}
	if err := h.checkRoom(); err != nil {
		return err
	}
	if err := h.admitCreation(r.Context(), in.WaitForCapacity); err != nil {
		return err
	}
	tools, err := h.confiner.checkTools(in.Tools)
	if err != nil {
		return err
	}
	base, err := h.skillsBase(in.Spritekit)
	if err != nil {
		return err
	}
	skills, err := h.keepSkills(cmp.Or(base, h.cfg.Skills), in.Skills)
	if err != nil {
		return err
	}
	if err := h.checkHostPorts(in.HostPorts); err != nil {
		return err
	}
	digest, done, err := h.takeImage(r.Context(), in.Image, in.Name)
	if err != nil {
		return err
	}
	defer done()
	root, err := h.layers.newRoot(r.Context(), digest)
	if err != nil {
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	now := h.now()
	rec := spriteRecord{
		ID: "sprite-" + ulid.Make().String(), Name: in.Name, Tree: root.ID, Labels: in.Labels, Environment: in.Environment,
		URLSettings: *in.URLSettings, Config: in.Config, Runtime: in.Runtime, MinIsolation: sandbox.Level(in.MinIsolation), Network: egress.Preset(in.Network), HostPorts: in.HostPorts,
		Tools: tools, Skills: skills, SkillsBase: base, Image: digest,
		CreatedAt: now, UpdatedAt: now,
	}
	if err := h.store.createSprite(rec, root); err != nil {
		h.layers.abandon(root)
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	h.step("created")
	h.changes.tell(rec.Name)
	h.cfg.Log.Info().Str("sprite", rec.Name).Str("mode", h.Mode()).Msg("sprite created")
	writeJSON(w, http.StatusCreated, h.object(rec))
	return nil
}

func (h *Host) deleteSprite(w http.ResponseWriter, r *http.Request) error {
	s, rec, leave, err := h.enter(r.Context(), r.PathValue("name"), alone)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.stop(); err != nil {
		return fmt.Errorf("delete sprite %s: end its sandbox: %w", rec.Name, err)
	}
	garbage, err := h.store.deleteSprite(rec.Name, h.layers.mounted.has)
	if err != nil {
		return fmt.Errorf("delete sprite %s: %w", rec.Name, err)
	}
	h.step("deleted")
	h.changes.tell(rec.Name)
	s.vanish()
	h.mu.Lock()
	delete(h.sprites, s.id)
	h.mu.Unlock()
	leave() // those who wait, calls from inside among them, find the sprite gone
	if err := s.closeSocket(); err != nil {
		h.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("close the sprite's own socket")
	}
	h.layers.discard(garbage...)
	for _, dir := range []string{h.cacheDir(s.id), h.runDir(s.id)} {
		if err := h.trash(dir); err != nil && !os.IsNotExist(err) {
			h.cfg.Log.Warn().Err(err).Str("dir", dir).Msg("move to trash")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
