package leader

import (
	"context"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// sandboxes makes sprites for callers of the interface, and lists their skills.
type sandboxes struct {
	sprites *sprites.Client
	record  func(ctx context.Context, kind audit.Kind, subject, key string, body any) error
}

// CreateSprite makes a sprite. The call is recorded before, with the caller's name.
func (s sandboxes) CreateSprite(ctx context.Context, r api.SpriteRequest) (sprites.Sprite, error) {
	if r.Name == "" {
		return sprites.Sprite{}, fault.BadInput("bad_request", "a new sprite needs a name").WithHint(`{"name": "box"}`)
	}
	if err := s.record(ctx, audit.Sprite, "sprite:"+text.Head(text.Line(r.Name), 64), "", map[string]any{"call": "create", "parameters": r}); err != nil {
		return sprites.Sprite{}, err
	}
	made, err := s.sprites.Create(ctx, sprites.Create{Name: r.Name, URLSettings: r.URLSettings, Labels: r.Labels})
	return made, problem.SpriteProblem(err)
}

// Skills lists the skills of a sprite.
func (s sandboxes) Skills(ctx context.Context, sprite string) ([]api.SpriteSkill, error) {
	names, err := skillset.ListNames(ctx, s.sprites, sprite)
	if err != nil {
		return nil, problem.SpriteProblem(err)
	}
	var all []api.SpriteSkill
	for _, name := range names {
		m, known := manifests.Lookup(name)
		one := api.SpriteSkill{Source: "builtin"}
		if !known {
			found, err := skillset.FindSkill(ctx, s.sprites, sprite, name)
			if m, one.Source = found.Skill, "sprite"; err != nil {
				one.Problem = text.Line(strings.ToValidUTF8(err.Error(), "\uFFFD"))
			}
		}
		one.Name, one.Description, one.Version, one.SideEffect = name, m.Description, m.Version, m.SideEffect
		one.Permissions, one.Inputs, one.Outputs = m.Permissions, m.Inputs, m.Outputs
		all = append(all, one)
	}
	return all, nil
}
