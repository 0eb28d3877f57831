package host

import "context"

// spriteAPI answers the calls about sprites as a whole: it makes, shows, changes and deletes them.
type spriteAPI struct {
	*core
	spriteParts
}

func newSpriteAPI(c *core, parts spriteParts) *spriteAPI { return &spriteAPI{c, parts} }

// spriteParts are the parts of the host that a spriteAPI uses.
type spriteParts struct {
	fleet    *fleet
	confiner *confiner
	layers   *layerStore
	network  *networkPolicy
	skills   *skillFolders
	images   imageTaker
	urls     urlFinder
}

// urlFinder knows the URLs of sprites.
type urlFinder interface {
	// urlOf returns the URL of a sprite, "" when URLs are not served.
	urlOf(name string) string
}

// imageTaker finds the images that new sprites start from.
type imageTaker interface {
	// takeImage returns the digest of an image, "" for this machine's own system. The image stays until done is called.
	takeImage(ctx context.Context, ref, sprite string) (digest string, done func(), err error)
}
