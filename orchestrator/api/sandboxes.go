package api

import (
	"context"
	"net/http"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Sandboxes creates sprites and lists their skills. The rest of the Sprites API is below /v1/sprites.
type Sandboxes interface {
	CreateSprite(ctx context.Context, r SpriteRequest) (sprites.Sprite, error)
	// Skills lists the skills of a sprite, sorted by name: those that are built in, and its own.
	Skills(ctx context.Context, sprite string) ([]SpriteSkill, error)
}

// SpriteRequest is POST /api/v1/sprites.
type SpriteRequest struct {
	Name        string               `json:"name"`
	URLSettings *sprites.URLSettings `json:"url_settings,omitempty"`
	Labels      []string             `json:"labels,omitempty"`
}

// SpriteSkill is a skill as a sprite has it. Of one that cannot be used, only the name is known, and the problem.
type SpriteSkill struct {
	Name        string            `json:"name"`
	Source      string            `json:"source"` // builtin or sprite
	Description string            `json:"description,omitempty"`
	Version     string            `json:"version,omitempty"`
	SideEffect  manifests.Class   `json:"side_effect,omitempty"`
	Permissions []string          `json:"permissions,omitempty"`
	Inputs      []manifests.Field `json:"inputs,omitempty"`
	Outputs     []manifests.Field `json:"outputs,omitempty"`
	Problem     string            `json:"problem,omitempty"`
}

func sandboxRoutes(s Sandboxes) []route.Route {
	return []route.Route{
		route.Post(route.Admin, "/sprites", "Create a sprite.", func(r *http.Request, in SpriteRequest) (sprites.Sprite, error) {
			return s.CreateSprite(r.Context(), in)
		}),
		route.ListAll("/sprites/{id}/skills", "List the skills of a sprite.", route.After, func(s SpriteSkill) string { return s.Name }, func(r *http.Request) ([]SpriteSkill, error) {
			return s.Skills(r.Context(), r.PathValue("id"))
		}),
	}
}
