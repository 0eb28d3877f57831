package catalog

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// The owner of sprites and the place where they are, in terms of the API. Both are this machine.
const (
	organization = "local"
	region       = "local"
)

// spriteObject is the sprite of the API with the members that only some clients read.
type spriteObject struct {
	sprites.Sprite
	OrgSlug       string     `json:"org_slug"`
	Mode          string     `json:"isolation_mode"`
	Version       string     `json:"version"`
	Runtime       string     `json:"runtime,omitempty"`
	Region        string     `json:"primary_region"`
	LastStartedAt *time.Time `json:"last_started_at"` // last_running_at in some versions of the API
	LastActiveAt  *time.Time `json:"last_active_at"`  // and last_warming_at
}

func (a *API) object(rec records.Sprite) spriteObject {
	state := a.Fleet.State(rec)
	settings := rec.URLSettings
	settings.Auth = cmp.Or(settings.Auth, "sprite")
	return spriteObject{
		Sprite: sprites.Sprite{
			ID: rec.ID, Name: rec.Name, Organization: organization, URL: a.URLs.URLOf(rec.Name), Status: string(state.Status), Labels: rec.Labels,
			CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt, Environment: rec.Environment, URLSettings: &settings, Config: rec.Config,
			LastRunningAt: state.Running, LastWarmingAt: state.Warmed,
			Network: a.Network.Describe(rec), Isolation: string(a.Confiner.Confined().Isolation), Downgrade: a.Confiner.Downgrade(), MinIsolation: string(rec.MinIsolation), Limits: a.limitsOf(rec), Tools: rec.Tools, Skills: rec.Skills, Image: rec.Image,
			WorkspacePath: filepath.Join(a.Layers.TreeDir(rec.Tree), "workspace"), Degraded: a.Layers.WhyDegraded(rec.Tree), Storage: a.Layers.Describe(rec),
		},
		OrgSlug: organization, Mode: a.Confiner.Confined().Text, Version: strings.TrimPrefix(wire.Version, "v"), Runtime: rec.Runtime, Region: region,
		LastStartedAt: state.Running, LastActiveAt: state.Warmed,
	}
}

// checkCreate validates a request for a sprite, and fills in defaults.
func checkCreate(in *sprites.Create) error {
	for name, value := range in.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return wire.BadRequest(fmt.Sprintf("environment: %q cannot be given to a command", name+"="+value))
		}
	}
	if in.URLSettings == nil {
		in.URLSettings = new(sprites.URLSettings)
	}
	if c := in.Config; c != nil && (c.RAMMB < 0 || c.CPUs < 0 || c.StorageGB < 0 || c.Pids < 0) {
		return wire.BadRequest("config: ram_mb, cpus, storage_gb and pids must not be below 0")
	}
	if in.MinIsolation != "" && !spec.Level(in.MinIsolation).Valid() {
		return wire.BadRequest(`min_isolation must be "ns-root", "ns-user" or "process"`)
	}
	switch in.Runtime {
	case "", "default", "dev":
	default:
		return wire.BadRequest(`runtime must be "default" or "dev"`)
	}
	if in.Network != "" && !egress.Preset(in.Network).Valid() {
		return wire.BadRequest(`network must be "defaults", "none" or "open"`)
	}
	return checkURLSettings(*in.URLSettings)
}

func checkURLSettings(u sprites.URLSettings) error {
	switch u.Auth {
	case "", "sprite", "public":
	default:
		return wire.BadRequest(`url_settings.auth must be "sprite" or "public"`)
	}
	switch u.PrivateAccess {
	case "", "admins", "org_users":
	default:
		return wire.BadRequest(`url_settings.private_access must be "admins" or "org_users"`)
	}
	return nil
}

// Bounds of labels; they are in every listing.
const (
	maxLabels = 100
	maxLabel  = 256 // bytes
)

func checkLabels(labels []string) error {
	if len(labels) > maxLabels {
		return wire.BadRequest(fmt.Sprintf("a sprite has at most %d labels, not %d", maxLabels, len(labels)))
	}
	for _, l := range labels {
		if l == "" || len(l) > maxLabel || strings.ContainsAny(l, "\x00\n\r") {
			return wire.BadRequest(fmt.Sprintf("labels are lines of 1 to %d bytes, not %.40q", maxLabel, l))
		}
	}
	return nil
}

// limitsOf lists for a sprite's object its limits and how each is enforced.
func (a *API) limitsOf(rec records.Sprite) []sprites.Limit {
	box := a.Fleet.PresentBox(rec.ID)
	given, later := a.Fleet.LimitsInUse(box, a.Confiner.BoxLimits(rec))
	kept := a.Confiner.Confined().Limits
	all := make([]sprites.Limit, len(kept))
	for i, e := range kept {
		e = e.Of(given)
		if e.Limit == spec.DefenceMemory && later != "" {
			e.Why = later
		}
		all[i] = sprites.Limit{Limit: string(e.Limit), Max: e.Max, By: e.By, Why: e.Why}
		if box != nil {
			all[i].Used = box.Limits().Used(e.Limit)
		}
	}
	return all
}

// SpriteInfo tells a sprite who it is.
func (a *API) SpriteInfo(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, struct {
		Name         string    `json:"name"`
		ID           string    `json:"id"`
		Organization string    `json:"organization"`
		URL          string    `json:"sprite_url"`
		Version      string    `json:"version"`
		CreatedAt    time.Time `json:"created_at"`
	}{rec.Name, rec.ID, organization, a.URLs.URLOf(rec.Name), strings.TrimPrefix(wire.Version, "v"), rec.CreatedAt})
	return nil
}
