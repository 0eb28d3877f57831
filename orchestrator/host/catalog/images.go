package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/image"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Images answers the calls about images, and keeps those that sprites are being made from.
type Images struct {
	*core.Core
	confiner *confine.Confiner
	layers   *storage.Store

	defaulting boltfile.Lock // guards imported, and is held while the default image is
	imported   string        // digest of the default image, once it was needed

	mu     boltfile.Lock   // guards claims
	claims map[*claim]bool // images that sprites are being made from
}

// ErrNoImage is why a sprite or a host cannot start from an image that is named: it is not there.
var ErrNoImage = image.ErrNotFound

func (a *Images) ImportImage(ctx context.Context, ref, name string, progress func(image.Progress)) (image.Image, error) {
	if err := a.confiner.CheckImages(); err != nil {
		return image.Image{}, err
	}
	return a.layers.Images.Import(ctx, image.Request{Ref: ref, Name: name}, progress)
}

var errImportRefused = wire.Refuse(http.StatusForbidden, "import_refused", "this host imports nothing that a request names; start it with --image PATH")

// InWords returns a function that tells the progress of an import in words, nil for nil.
func InWords(tell func(text string)) func(image.Progress) {
	if tell == nil {
		return nil
	}
	return func(p image.Progress) { tell(describeProgress(p)) }
}

func describeProgress(p image.Progress) string {
	text := p.Step
	if p.Layers > 1 {
		text += fmt.Sprintf(" layer %d of %d", p.Layer, p.Layers)
	}
	if p.Entries > 0 {
		text += fmt.Sprintf(", %d entries", p.Entries)
	}
	if p.Bytes > 0 {
		text += fmt.Sprintf(", %d MiB", p.Bytes>>20)
	}
	return text
}

// PostImage answers with an NDJSON stream of sprites.ImageProgress.
func (a *Images) PostImage(w http.ResponseWriter, r *http.Request) error {
	var in sprites.ImageImport
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	switch {
	case in.Ref == "":
		return wire.BadRequest("ref: say which image, as an absolute path or the name of one that is there")
	case filepath.IsAbs(in.Ref) && !a.Config.ImportImages:
		return errImportRefused
	}
	if err := a.confiner.CheckImages(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	send := func(p sprites.ImageProgress) {
		_ = out.Encode(p) // a client that is gone also ends the context
		_ = http.NewResponseController(w).Flush()
	}
	img, err := a.ImportImage(r.Context(), in.Ref, in.Name, func(p image.Progress) {
		send(sprites.ImageProgress{Type: "info", Data: describeProgress(p), Step: p.Step, Done: p.Done, Of: p.Of})
	})
	if err != nil {
		refusal := wire.Classify(imageError(err))
		a.Config.Log.Warn().Err(err).Str("image", in.Ref).Msg("import refused")
		send(sprites.ImageProgress{Type: "error", Error: refusal.Message, Code: refusal.Code, Status: refusal.Status})
		return nil
	}
	made := describeImage(img)
	send(sprites.ImageProgress{Type: "complete", Data: "Imported " + img.Digest, Image: &made})
	return nil
}

func (a *Images) ListImages(w http.ResponseWriter, _ *http.Request) error {
	all, err := a.layers.Images.List()
	if err != nil {
		return err
	}
	described := make([]sprites.Image, 0, len(all))
	for _, img := range all {
		described = append(described, describeImage(img))
	}
	wire.WriteJSON(w, http.StatusOK, map[string]any{"images": described})
	return nil
}

func (a *Images) GetImage(w http.ResponseWriter, r *http.Request) error {
	img, err := a.layers.Images.Get(r.PathValue("ref"))
	if err != nil {
		return imageError(err)
	}
	wire.WriteJSON(w, http.StatusOK, describeImage(img))
	return nil
}

func (a *Images) DeleteImage(w http.ResponseWriter, r *http.Request) error {
	img, err := a.layers.Images.Remove(r.PathValue("ref"), a.usersOf)
	if err != nil {
		return imageError(err)
	}
	a.Config.Log.Info().Str("image", img.Digest).Msg("image removed")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// usersOf names the sprites that started from an image, and those that are being made.
func (a *Images) usersOf(digest string) (names []string, err error) {
	// Claims first: the record of a sprite is there before its claim ends.
	a.mu.Lock()
	for c := range a.claims {
		if c.digest == digest {
			names = append(names, c.sprite)
		}
	}
	a.mu.Unlock()
	all, err := a.Store.Sprites()
	for _, rec := range all {
		if rec.Image == digest {
			names = append(names, rec.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// claim keeps an image while a sprite is being made from it, until its record does.
type claim struct{ digest, sprite string }

// takeImage finds the image that a new sprite starts from, and imports it first if necessary. The digest is "" for this machine's own
// system. An image stays at least until done is called.
func (a *Images) takeImage(ctx context.Context, ref, sprite string) (digest string, done func(), err error) {
	if ref == "" {
		ref, err = a.defaultImage(ctx)
	} else {
		ref, err = a.namedImage(ctx, ref)
	}
	if err != nil || ref == "" {
		return "", func() {}, err
	}
	c := &claim{sprite: sprite}
	err = a.layers.Images.Use(ref, func(img image.Image) error {
		if err := a.layers.Images.Usable(img); err != nil {
			return err
		}
		c.digest = img.Digest
		a.mu.Lock()
		defer a.mu.Unlock()
		a.claims[c] = true
		return nil
	})
	if err != nil {
		return "", func() {}, imageError(err)
	}
	return c.digest, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.claims, c)
	}, nil
}

// namedImage is the image that a request asks for, "" for none.
func (a *Images) namedImage(ctx context.Context, ref string) (string, error) {
	if ref == image.None {
		return "", nil
	}
	if err := a.confiner.CheckImages(); err != nil || !filepath.IsAbs(ref) {
		return ref, err
	}
	if !a.Config.ImportImages {
		return "", errImportRefused
	}
	img, err := a.layers.Images.Import(ctx, image.Request{Ref: ref}, nil)
	if err != nil {
		return "", imageError(err)
	}
	return img.Digest, nil
}

// defaultImage is the image of sprites that ask for none, "" when there is none. An image that was imported once counts for as
// long as the host runs.
func (a *Images) defaultImage(ctx context.Context) (string, error) {
	ref := a.Config.Image
	if ref == "" || ref == image.None {
		return "", nil
	}
	if err := a.confiner.CheckImages(); err != nil {
		return "", err
	}
	a.defaulting.Lock()
	defer a.defaulting.Unlock()
	if img, err := a.layers.Images.Get(a.imported); err == nil {
		return img.Digest, nil
	}
	img, err := a.layers.Images.Import(ctx, image.Request{Ref: ref}, nil)
	if err != nil {
		return "", imageError(err)
	}
	a.imported = img.Digest
	return img.Digest, nil
}

// imageError makes an API error of a refusal of package image.
func imageError(err error) error {
	var refusal *image.Refusal
	var used *image.InUseError
	switch {
	case errors.As(err, &refusal):
		text := err.Error()
		if refusal.Remedy != "" {
			text += "; " + refusal.Remedy
		}
		return wire.Refuse(http.StatusBadRequest, "image_refused", text)
	case errors.As(err, &used):
		return wire.Refuse(http.StatusConflict, "image_in_use", err.Error()+"; remove them first")
	case errors.Is(err, image.ErrNotFound):
		return wire.Refuse(http.StatusNotFound, "image_not_found", err.Error()+"; lattice image ls lists what is there")
	}
	return err
}

func describeImage(img image.Image) sprites.Image {
	return sprites.Image{
		Digest: img.Digest, Names: img.Names, Kind: string(img.Kind), Source: img.Source, Architecture: img.Architecture, ImportedAt: img.ImportedAt,
		Entries: img.Entries, Size: img.Size, LeftOut: sprites.ImageLeftOut(img.LeftOut), Config: sprites.ImageConfig(img.Config),
	}
}

func NewImages(c *core.Core, confiner *confine.Confiner, layers *storage.Store) *Images {
	return &Images{Core: c, confiner: confiner, layers: layers, claims: map[*claim]bool{}}
}
