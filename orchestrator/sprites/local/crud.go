package local

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// organization is what the API calls the owner of sprites; here it is always this machine.
const organization = "local"

// spriteName is what a sprite may be called: it is part of URLs.
var spriteName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// spriteObject is the sprite of the API with the members that only some clients read.
type spriteObject struct {
	sprites.Sprite
	OrgSlug       string      `json:"org_slug"`
	URLSettings   urlSettings `json:"url_settings"`
	Mode          string      `json:"isolation_mode"`
	LastRunningAt *time.Time  `json:"last_running_at"`
	LastWarmingAt *time.Time  `json:"last_warming_at"`
	LastStartedAt *time.Time  `json:"last_started_at"`
	LastActiveAt  *time.Time  `json:"last_active_at"`
}

// urlSettings say who may open a sprite's URL. They are kept for clients that read them back; the embedded host serves no
// such URLs.
type urlSettings struct {
	Auth          string `json:"auth,omitempty"`
	PrivateAccess string `json:"private_access,omitempty"`
}

func (u urlSettings) valid() bool { return u.Auth == "" || u.Auth == "sprite" || u.Auth == "public" }

func (u urlSettings) withDefault() urlSettings {
	if u.Auth == "" {
		u.Auth = "sprite"
	}
	return u
}

func (h *Host) object(rec spriteRecord) spriteObject {
	return spriteObject{
		Sprite: sprites.Sprite{
			ID: rec.ID, Name: rec.Name, Organization: organization, Status: h.status(rec.ID), Labels: rec.Labels,
			CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt, Environment: rec.Environment, Isolation: isolation, Tools: rec.Tools, Skills: rec.Skills,
			WorkspacePath: filepath.Join(h.treeDir(rec.Tree), "workspace"), Degraded: h.degraded(rec.Tree),
		},
		OrgSlug: organization, URLSettings: rec.URLSettings.withDefault(), Mode: h.Mode(),
		LastRunningAt: rec.LastStarted, LastWarmingAt: rec.LastStarted, LastStartedAt: rec.LastStarted, LastActiveAt: rec.LastStarted,
	}
}

func (h *Host) createSprite(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		sprites.Create
		URLSettings urlSettings `json:"url_settings"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if !spriteName.MatchString(in.Name) {
		return badRequest(fmt.Sprintf("%q is no sprite name: use 1 to 63 lower-case letters, digits and dashes, not at the ends", in.Name))
	}
	for name, value := range in.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return badRequest(fmt.Sprintf("environment: %q cannot be given to a command", name+"="+value))
		}
	}
	if !in.URLSettings.valid() {
		return badRequest(`url_settings.auth must be "sprite" or "public"`)
	}
	if _, err := h.store.sprite(in.Name); err == nil {
		return errNameTaken
	}
	tools, err := h.checkTools(in.Tools)
	if err != nil {
		return err
	}
	skills, err := h.keepSkills(in.Skills)
	if err != nil {
		return err
	}
	tree, err := h.newTree()
	if err != nil {
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	now := h.now()
	rec := spriteRecord{
		ID: "sprite-" + ulid.Make().String(), Name: in.Name, Tree: tree, Labels: in.Labels, Environment: in.Environment,
		URLSettings: in.URLSettings, Tools: tools, Skills: skills,
		CreatedAt: now, UpdatedAt: now,
	}
	if err := h.store.createSprite(rec); err != nil {
		h.abandonTree(tree)
		return fmt.Errorf("create sprite %s: %w", in.Name, err)
	}
	h.step("created")
	h.cfg.Log.Info().Str("sprite", rec.Name).Str("mode", h.Mode()).Msg("sprite created")
	writeJSON(w, http.StatusCreated, h.object(rec))
	return nil
}

func (h *Host) getSprite(w http.ResponseWriter, r *http.Request) error {
	rec, err := h.store.sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, h.object(rec))
	return nil
}

const maxPage = 50

func (h *Host) listSprites(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit := maxPage
	if n, err := strconv.Atoi(query.Get("max_results")); err == nil && n > 0 {
		limit = min(n, maxPage)
	}
	prefix := query.Get("prefix")
	after := query.Get("continuation_token") // the last name of the page before
	page := []spriteObject{}
	var next *string
	counts := map[string]int{}
	var found []spriteRecord
	err := h.store.sprites("", func(rec spriteRecord) bool {
		counts[h.status(rec.ID)]++ // of all sprites, whatever the page
		return true
	})
	if err != nil {
		return err
	}
	err = h.store.sprites(after, func(rec spriteRecord) bool {
		if len(rec.Name) < len(prefix) || rec.Name[:len(prefix)] != prefix {
			return true
		}
		if len(found) == limit {
			next = &found[limit-1].Name
			return false
		}
		found = append(found, rec)
		return true
	})
	if err != nil {
		return err
	}
	for _, rec := range found {
		page = append(page, h.object(rec))
	}
	summary := map[string]any{
		"name": organization, "running": counts["running"], "warm": counts["warm"], "cold": counts["cold"],
		"running_limit": 0, "warm_limit": 0,
	}
	out := map[string]any{"sprites": page, "has_more": next != nil, "next_continuation_token": next, "org": summary}
	for k, v := range summary {
		out[k] = v
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (h *Host) updateSprite(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Labels      *[]string   `json:"labels"`
		ClearLabels bool        `json:"clear_labels"`
		URLSettings urlSettings `json:"url_settings"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if !in.URLSettings.valid() {
		return badRequest(`url_settings.auth must be "sprite" or "public"`)
	}
	rec, err := h.store.updateSprite(r.PathValue("name"), func(rec *spriteRecord) {
		switch {
		case in.ClearLabels:
			rec.Labels = nil
		case in.Labels != nil:
			rec.Labels = *in.Labels
		}
		if in.URLSettings.Auth != "" {
			rec.URLSettings.Auth = in.URLSettings.Auth
		}
		if in.URLSettings.PrivateAccess != "" {
			rec.URLSettings.PrivateAccess = in.URLSettings.PrivateAccess
		}
		rec.UpdatedAt = h.now()
	})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, h.object(rec))
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
	trees, err := h.store.deleteSprite(rec.Name)
	if err != nil {
		return fmt.Errorf("delete sprite %s: %w", rec.Name, err)
	}
	h.step("deleted")
	h.mu.Lock()
	delete(h.sprites, s.id)
	h.mu.Unlock()
	leave() // those who wait, calls from inside among them, find the sprite gone
	if err := s.closeSocket(); err != nil {
		h.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("close the sprite's own socket")
	}
	h.discard(trees...)
	for _, dir := range []string{h.cacheDir(s.id), h.runDir(s.id)} {
		if err := h.trash(dir); err != nil && !os.IsNotExist(err) {
			h.cfg.Log.Warn().Err(err).Str("dir", dir).Msg("move to trash")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
