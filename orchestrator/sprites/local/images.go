package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/local/image"
)

// shiftedIDs is the host's id for root of a sprite, when the host runs as root; see sandbox.LevelRoot.
const shiftedIDs = 100000

func (h *Host) openImages() (err error) {
	h.images, err = image.Open(filepath.Join(h.cfg.Dir, "images"), image.Options{Now: h.now, Shift: func() int {
		if os.Getuid() == 0 {
			return shiftedIDs
		}
		return 0
	}})
	return err
}

// ImportImage brings an image in, unless it is there already, and returns its digest. ref is an absolute path or an image
// that is there; progress may be nil.
func (h *Host) ImportImage(ctx context.Context, ref, name string, progress func(text string)) (digest string, err error) {
	img, err := h.importImage(ctx, ref, name, progress)
	return img.Digest, err
}

func (h *Host) importImage(ctx context.Context, ref, name string, progress func(string)) (image.Image, error) {
	if err := h.imagesWork(); err != nil {
		return image.Image{}, err
	}
	return h.images.Import(ctx, image.Request{Ref: ref, Name: name}, func(p image.Progress) {
		if progress != nil {
			progress(progressText(p))
		}
	})
}

// imagesWork says why sprites cannot start from images here, nil when they can.
func (h *Host) imagesWork() error {
	if c := h.confined(); c.plain {
		return &apiError{http.StatusConflict, "isolation_unavailable", "sprites start from images only where they are kept apart by namespaces, and here they are a " + c.text +
			"; lattice doctor says what helps, or use a sprite without an image"}
	}
	return nil
}

func progressText(p image.Progress) string {
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

// postImage answers with an NDJSON stream of sprites.ImageProgress.
func (h *Host) postImage(w http.ResponseWriter, r *http.Request) error {
	var in sprites.ImageImport
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	switch {
	case in.Ref == "":
		return badRequest("ref: say which image, as an absolute path or the name of one that is there")
	case filepath.IsAbs(in.Ref) && !h.cfg.ImportImages:
		return &apiError{http.StatusForbidden, "import_refused", "this host imports nothing that a request names; start it with --image PATH"}
	}
	if err := h.imagesWork(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	send := func(p sprites.ImageProgress) {
		_ = out.Encode(p) // a client that is gone also ends the context
		_ = http.NewResponseController(w).Flush()
	}
	img, err := h.importImage(r.Context(), in.Ref, in.Name, func(text string) { send(sprites.ImageProgress{Type: "info", Data: text}) })
	if err != nil {
		refusal := classify(imageError(err))
		h.cfg.Log.Warn().Err(err).Str("image", in.Ref).Msg("import refused")
		send(sprites.ImageProgress{Type: "error", Error: refusal.message, Code: refusal.code, Status: refusal.status})
		return nil
	}
	wire := wireImage(img)
	send(sprites.ImageProgress{Type: "complete", Data: "Imported " + img.Digest, Image: &wire})
	return nil
}

func (h *Host) listImages(w http.ResponseWriter, _ *http.Request) error {
	all, err := h.images.List()
	if err != nil {
		return err
	}
	wire := make([]sprites.Image, 0, len(all))
	for _, img := range all {
		wire = append(wire, wireImage(img))
	}
	writeJSON(w, http.StatusOK, map[string]any{"images": wire})
	return nil
}

func (h *Host) getImage(w http.ResponseWriter, r *http.Request) error {
	img, err := h.images.Get(r.PathValue("ref"))
	if err != nil {
		return imageError(err)
	}
	writeJSON(w, http.StatusOK, wireImage(img))
	return nil
}

func (h *Host) deleteImage(w http.ResponseWriter, r *http.Request) error {
	img, err := h.images.Remove(r.PathValue("ref"), h.usersOf)
	if err != nil {
		return imageError(err)
	}
	h.cfg.Log.Info().Str("image", img.Digest).Msg("image removed")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// usersOf names the sprites that started from an image.
func (h *Host) usersOf(digest string) (names []string, err error) {
	err = h.store.sprites("", func(rec spriteRecord) bool {
		if rec.Image == digest {
			names = append(names, rec.Name)
		}
		return true
	})
	return names, err
}

// imageError gives what package image refuses its answer.
func imageError(err error) error {
	var refusal *image.Refusal
	var used *image.InUseError
	switch {
	case errors.As(err, &refusal):
		text := err.Error()
		if refusal.Remedy != "" {
			text += "; " + refusal.Remedy
		}
		return &apiError{http.StatusBadRequest, "image_refused", text}
	case errors.As(err, &used):
		return &apiError{http.StatusConflict, "image_in_use", err.Error() + "; remove them first"}
	case errors.Is(err, image.ErrNotFound):
		return &apiError{http.StatusNotFound, "image_not_found", err.Error() + "; lattice image ls lists what is there"}
	}
	return err
}

func wireImage(img image.Image) sprites.Image {
	return sprites.Image{
		Digest: img.Digest, Names: img.Names, Kind: string(img.Kind), Source: img.Source, Architecture: img.Architecture, ImportedAt: img.ImportedAt,
		Entries: img.Entries, Size: img.Size, LeftOut: sprites.ImageLeftOut(img.LeftOut), Config: sprites.ImageConfig(img.Config),
	}
}
