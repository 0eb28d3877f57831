package oci

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	maxDocument = 4 << 20 // bytes of an index, a manifest or a config
	maxImages   = 1000    // in one layout
	maxNested   = 4       // indexes in each other
)

// fromLayout takes images for Linux out of a layout, all blobs checked against their digests.
func (b *builder) fromLayout() ([]*image, error) {
	dir, choice := b.Base, ""
	if i := strings.LastIndexByte(dir, '#'); i > 0 {
		if _, err := os.Stat(dir); err != nil {
			dir, choice = dir[:i], dir[i+1:]
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, indexFile))
	if err != nil {
		report := inputError
		if errors.Is(err, os.ErrNotExist) {
			report = refuseMissing
		}
		return nil, report("name a folder with oci-layout and index.json in it", "%s is not an OCI layout: %v", dir, err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, inputError("", "the index of %s cannot be read: %v", dir, err)
	}
	l := existing{dir: dir, choice: choice}
	if err := l.listImages(index, "", maxNested); err != nil {
		return nil, prefixPath(dir, err)
	}
	var images []*image
	for _, d := range l.images {
		img, err := b.importImage(l, d)
		if err != nil {
			return nil, prefixPath(dir, err)
		}
		if img == nil {
			continue
		}
		if slices.ContainsFunc(images, func(have *image) bool { return have.arch == img.arch }) {
			return nil, inputError("choose one by its name or digest: "+dir+"#NAME", "%s holds several images for linux/%s", dir, img.arch)
		}
		images = append(images, img)
	}
	if len(images) == 0 {
		return nil, inputError("", "%s holds no image for linux on amd64 or arm64 of that name", b.Base)
	}
	return images, nil
}

// existing is a layout that is read.
type existing struct {
	dir, choice string
	images      []v1.Descriptor
}

// listImages lists the images of an index and of the indexes in it. name is the name of the index that contains them.
func (l *existing) listImages(index *v1.IndexManifest, name string, depth int) error {
	if depth == 0 {
		return inputError("", "its indexes lie in each other more than %d deep", maxNested)
	}
	for _, d := range index.Manifests {
		called := cmp.Or(d.Annotations[annotationName], name)
		digest := d.Digest.String()
		chosen := l.choice == "" || called == l.choice || strings.HasPrefix(digest, l.choice) || strings.HasPrefix(d.Digest.Hex, l.choice)
		switch {
		case len(l.images) > maxImages:
			return inputError("", "it holds more than %d images", maxImages)
		case d.MediaType.IsIndex():
			data, err := l.readDocument(d)
			if err != nil {
				return err
			}
			nested, err := v1.ParseIndexManifest(bytes.NewReader(data))
			if err != nil {
				return inputError("", "the index %s cannot be read: %v", digest, err)
			}
			if chosen && l.choice != "" {
				called = l.choice // all of it is
			}
			if err := l.listImages(nested, called, depth-1); err != nil {
				return err
			}
		case !chosen || !d.MediaType.IsImage() || isArtifact(d.ArtifactType) || d.Platform != nil && d.Platform.OS == "unknown":
			// others, attestations, signatures and the like
		case !slices.ContainsFunc(l.images, func(have v1.Descriptor) bool { return have.Digest == d.Digest }):
			l.images = append(l.images, d)
		}
	}
	return nil
}

// isArtifact reports whether kind is not an image. Some tools repeat an image's config type here.
func isArtifact(kind string) bool { return kind != "" && !types.MediaType(kind).IsConfig() }

// readDocument reads a small blob.
func (l *existing) readDocument(d v1.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > maxDocument {
		return nil, inputError("", "the document %s has %d bytes", d.Digest, d.Size)
	}
	f, err := l.openBlob(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if h := sha256.Sum256(data); fmt.Sprintf("%x", h) != d.Digest.Hex {
		return nil, damagedError(d.Digest)
	}
	return data, nil
}

func (l *existing) openBlob(d v1.Descriptor) (*os.File, error) {
	if d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != 64 {
		return nil, inputError("", "the digest %s is of no kind that is known here", d.Digest)
	}
	f, err := os.Open(filepath.Join(l.dir, blobPath(d.Digest)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, inputError("get the layout anew", "the blob %s is missing", d.Digest)
	}
	return f, err
}

func damagedError(digest v1.Hash) error {
	return inputError("get the layout anew", "the blob %s is damaged or was changed", digest)
}

// importImage takes one image over; nil when it is for other machines.
func (b *builder) importImage(l existing, d v1.Descriptor) (*image, error) {
	data, err := l.readDocument(d)
	if err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return nil, inputError("", "the manifest %s cannot be read: %v", d.Digest, err)
	}
	if isArtifact(manifest.ArtifactType) || !manifest.Config.MediaType.IsConfig() {
		return nil, nil
	}
	if data, err = l.readDocument(manifest.Config); err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, inputError("", "the config %s cannot be read: %v", manifest.Config.Digest, err)
	}
	if config.OS != "linux" || !slices.Contains(b.Skills.Architectures, config.Architecture) {
		return nil, nil
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return nil, inputError("", "the image %s has %d layers, and its config tells of %d", d.Digest, len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	if len(b.Architectures) > 0 && !slices.Contains(b.Architectures, config.Architecture) {
		return &image{arch: config.Architecture}, nil // not wanted: its layers are not read
	}
	b.Tell("read the base for linux/"+config.Architecture, 0, 0)
	img := &image{arch: config.Architecture, config: *config, based: d.Digest}
	for i, layer := range manifest.Layers {
		took, err := b.copyLayer(l, layer, config.RootFS.DiffIDs[i], &img.from)
		if err != nil {
			return nil, err
		}
		img.layers = append(img.layers, took)
	}
	img.config.History = historyOf(*config, b.Time)
	return img, nil
}

// historyOf is that of an image, or one that fits its layers where it tells none.
func historyOf(c v1.ConfigFile, at time.Time) []v1.History {
	told := 0
	for _, h := range c.History {
		if !h.EmptyLayer {
			told++
		}
	}
	if told == len(c.RootFS.DiffIDs) {
		return c.History
	}
	made := make([]v1.History, len(c.RootFS.DiffIDs))
	for i := range made {
		made[i] = v1.History{Created: v1.Time{Time: at}, CreatedBy: "layer of the base"}
	}
	return made
}

// copyLayer copies a layer byte for byte.
func (b *builder) copyLayer(l existing, d v1.Descriptor, diff v1.Hash, seen *inventory) (v1.Descriptor, error) {
	media, known := map[types.MediaType]types.MediaType{
		types.OCILayer: types.OCILayer, types.DockerLayer: types.OCILayer, types.OCILayerZStd: types.OCILayerZStd,
		types.OCIUncompressedLayer: types.OCIUncompressedLayer, types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	}[d.MediaType]
	if !known {
		return d, inputError("", "the layer %s is of a kind that cannot be taken over: %s", d.Digest, d.MediaType)
	}
	f, err := l.openBlob(d)
	if err != nil {
		return d, err
	}
	defer f.Close()
	plain := sha256.New()
	var unread error // why the tar in it cannot be read; that it is not the blob it should be is the better reason
	took, err := b.layout.writeBlob(media, func(to io.Writer) error {
		blob := io.TeeReader(f, &bound{ctx: b.ctx, w: to})
		tarball, err := openCompressed(blob)
		if err == nil {
			err = seen.scanLayer(io.TeeReader(tarball, plain))
			err = errors.Join(err, tarball.Close())
		}
		unread = err
		_, err = io.Copy(io.Discard, blob) // the bytes after the compressed stream belong to the blob
		return err
	})
	switch {
	case err != nil:
		return d, err
	case took.Digest != d.Digest:
		return d, damagedError(d.Digest)
	case unread != nil:
		return d, inputError("get the layout anew", "the layer %s cannot be read: %v", d.Digest, unread)
	case digestOf(plain) != diff:
		return d, inputError("get the layout anew", "the layer %s unpacks to %s, where the image's config says %s", d.Digest, digestOf(plain), diff)
	}
	return took, nil
}
