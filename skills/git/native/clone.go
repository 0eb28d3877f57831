package native

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Clone fills a folder with a repository.
func (Engine) Clone(context.Context, engine.CloneSpec) (engine.Cloned, error) {
	return engine.Cloned{}, engine.Refuse(engine.Native, "clone")
}

// Refs asks a source for its refs.
func (Engine) Refs(context.Context, engine.Source) ([]engine.Ref, error) {
	return nil, engine.Refuse(engine.Native, "clone")
}
