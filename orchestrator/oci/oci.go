// Package oci builds images for sprites as OCI layouts: a base, which is a root filesystem, another layout or nothing,
// and on top of it one layer with /skills. No daemon is asked and nothing is fetched.
//
// Start with Build. A layout holds one image per architecture and, where there are several, an index of them. The
// documents that Describe writes about an image, such as its bill of materials, are artifacts that name it as their
// subject.
//
//	oci-layout
//	index.json                          → the image, or the index of images, by its tag; and the artifacts
//	blobs/sha256/<index>                → images by platform
//	blobs/sha256/<manifest>             → config and layers
//	blobs/sha256/<layer>                  base layers, then /skills
//
// # Equal inputs, equal bytes
//
// A layout depends only on the bytes of its inputs and on Recipe.Time: not on the clock, the user, the umask, names of
// folders, or the order in which a filesystem lists them. A tar is taken unchanged. Of a folder the layout takes names,
// contents, modes, links and hard links; all files get root as owner and Recipe.Time, and devices,
// sockets and extended attributes are left out. A tar keeps owners, so recipes make tars.
//
// The inputs of a layout are trusted: they are checked against their digests, and bounded, but not confined. The program that
// unpacks an image must confine it.
package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	maps0 "maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/spritekit/lattice/spritekit/fault"
)

// Recipe lists the inputs of an image.
type Recipe struct {
	Rootfs []Rootfs // root filesystems, one an architecture; or
	Base   string   // the path of an OCI layout, PATH#NAME for one of several images in it; or neither

	// Architectures of Linux, as Go calls them. None means those of the base, and without one all that Skills knows.
	Architectures []string
	Skills        Skills

	Tag  string    // the image's name in the layout
	Time time.Time // the time of all files and records, in whole seconds and UTC; the zero value is 1970

	// Describe, which may be nil, writes documents about an image; they are attached to it.
	Describe func(Contents) ([]Document, error)
	// Tell, which may be nil, is called with the current step, for people, and how many of the bytes that it reads were read; of is 0
	// if that is not known.
	Tell func(step string, done, of int64)
}

// Rootfs is a root filesystem of one architecture: a folder, or a tar, plain or by gzip or zstd.
type Rootfs struct {
	Architecture string // "" looks at its programs
	Path         string
}

// Document is something to attach to an image.
type Document struct {
	MediaType string
	Title     string // the name of a file that would hold it
	Data      []byte
}

// Built is the result of Build.
type Built struct {
	Layout string  `json:"layout"`
	Tag    string  `json:"tag"`
	Digest string  `json:"digest"` // of the image, or of the index where there are several
	Images []Image `json:"images"`
}

// Image is one image of a layout.
type Image struct {
	Platform  string     `json:"platform"` // such as linux/arm64
	Digest    string     `json:"digest"`
	Config    string     `json:"config"`
	Layers    []Layer    `json:"layers"` // lowest first
	Documents []Attached `json:"documents,omitempty"`
}

// Layer is one layer of an image.
type Layer struct {
	Digest string `json:"digest"`
	DiffID string `json:"diff_id"` // of the uncompressed tar
	Size   int64  `json:"size"`    // bytes, compressed
}

// Attached is a Document in a layout.
type Attached struct {
	MediaType string `json:"media_type"`
	Title     string `json:"title"`
	Digest    string `json:"digest"`   // of the document
	Manifest  string `json:"manifest"` // of the artifact that holds it
}

// codeRefused is the code of each failure whose cause is the recipe or its inputs.
const codeRefused = "image_refused"

// refuseMissing reports that an input does not exist.
func refuseMissing(hint, format string, args ...any) error {
	return fault.NotFound(codeRefused, format, args...).WithHint("%s", hint)
}

// Build makes a layout in the folder out, which must not be there, be empty or, with replace, be a layout. The layout
// appears whole or not at all. Inputs that cannot be used are a [fault.Error].
func Build(ctx context.Context, r Recipe, out string, replace bool) (built Built, err error) {
	if r.Tell == nil {
		r.Tell = func(string, int64, int64) {}
	}
	if r.Time.IsZero() {
		r.Time = time.Unix(0, 0)
	}
	r.Time = r.Time.UTC().Truncate(time.Second)
	if r.Base != "" && len(r.Rootfs) > 0 {
		return built, inputError("leave one of them out", "an image stands on a root filesystem or on another image, not on both")
	}
	if err := checkFree(out, replace); err != nil {
		return built, err
	}
	l, err := newLayout(out)
	if err != nil {
		return built, fmt.Errorf("build image: %w", err)
	}
	defer func() { err = errors.Join(err, l.removeUnpublished()) }()
	b := builder{ctx: ctx, Recipe: r, layout: l}
	if built, err = b.buildImages(); err != nil {
		return built, fmt.Errorf("build image: %w", err)
	}
	if err := l.publishTo(out); err != nil {
		return built, fmt.Errorf("build image: %w", err)
	}
	built.Layout = out
	return built, nil
}

// checkFree refuses a place where something is that Build must not remove.
func checkFree(out string, replace bool) error {
	names, err := os.ReadDir(out)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0:
		return nil
	case err != nil:
		return inputError("name a folder that is not there yet", "%v", err)
	}
	if _, err := os.Stat(filepath.Join(out, layoutFile)); err != nil {
		return inputError("name a folder that is not there yet", "%s is a folder with other things in it", out)
	}
	if !replace {
		return inputError("name another folder, or replace it: --force", "%s is an image already", out)
	}
	return nil
}

// builder is one call of Build.
type builder struct {
	ctx context.Context
	Recipe
	layout *layout
}

// image is one image during the build: first its base, at the end the whole.
type image struct {
	arch   string
	config v1.ConfigFile
	layers []v1.Descriptor
	from   inventory
	based  v1.Hash // the base's manifest
}

func (b *builder) buildImages() (Built, error) {
	images, err := b.loadBases()
	if err != nil {
		return Built{}, err
	}
	built := Built{Tag: b.Tag}
	var manifests, artifacts []v1.Descriptor
	for _, img := range images {
		desc, made, err := b.buildImage(img)
		if err != nil {
			return built, err
		}
		attached, err := b.attachDocuments(img, desc, &made)
		if err != nil {
			return built, err
		}
		manifests, artifacts, built.Images = append(manifests, desc), append(artifacts, attached...), append(built.Images, made)
	}
	top := manifests[0]
	if len(manifests) > 1 {
		if top, err = b.layout.writeDocument(types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: manifests}); err != nil {
			return built, err
		}
	}
	built.Digest = top.Digest.String()
	if b.Tag != "" {
		top.Annotations = map[string]string{annotationName: b.Tag}
	}
	return built, b.layout.writeIndex(append([]v1.Descriptor{top}, artifacts...))
}

// loadBases finds the bases of the images, one for each architecture, ordered by name.
func (b *builder) loadBases() (images []*image, err error) {
	switch {
	case len(b.Rootfs) > 0:
		images, err = b.fromRootfs()
	case b.Base != "":
		images, err = b.fromLayout()
	default:
		for _, arch := range b.Skills.Architectures {
			images = append(images, b.emptyBase(arch))
		}
	}
	if err != nil {
		return nil, err
	}
	var have []string
	for _, img := range images {
		have = append(have, img.arch)
	}
	for _, arch := range b.Architectures {
		if !slices.Contains(have, arch) {
			return nil, inputError("name the base for each: --rootfs linux/"+arch+"=PATH", "there is no base for linux/%s, only for %s", arch, strings.Join(have, ", "))
		}
	}
	images = slices.DeleteFunc(images, func(img *image) bool { return len(b.Architectures) > 0 && !slices.Contains(b.Architectures, img.arch) })
	slices.SortFunc(images, func(x, y *image) int { return strings.Compare(x.arch, y.arch) })
	return images, nil
}

func (b *builder) emptyBase(arch string) *image {
	return &image{arch: arch, from: inventory{}, config: v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}}}
}

// buildImage appends the skills to a base, and writes config and manifest.
func (b *builder) buildImage(img *image) (v1.Descriptor, Image, error) {
	b.Tell("add /skills for linux/"+img.arch, 0, 0)
	kit, err := b.Skills.loadKit(img.arch)
	if err != nil {
		return v1.Descriptor{}, Image{}, err
	}
	skills, diff, err := b.layout.writeLayer(b.ctx, kit.writeTar(b.Time))
	if err != nil {
		return v1.Descriptor{}, Image{}, err
	}
	img.addLayer(skills, diff, b.Time, "lattice image build: /skills")
	labels := kit.makeLabels(b.Time)
	if img.based != (v1.Hash{}) {
		labels["org.opencontainers.image.base.digest"] = img.based.String()
	}
	c := &img.config
	c.Created = v1.Time{Time: b.Time}
	c.Config.Env = withSkills(c.Config.Env)
	c.Config.WorkingDir = cmp.Or(c.Config.WorkingDir, "/workspace")
	c.Config.Labels = mergeMaps(c.Config.Labels, labels)
	config, err := b.layout.writeDocument(types.OCIConfigJSON, c)
	if err != nil {
		return config, Image{}, err
	}
	manifest, err := b.layout.writeDocument(types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: img.layers, Annotations: labels,
	})
	manifest.Platform = &v1.Platform{OS: "linux", Architecture: img.arch, Variant: c.Variant}
	made := Image{Platform: "linux/" + img.arch, Digest: manifest.Digest.String(), Config: config.Digest.String()}
	for i, l := range img.layers {
		made.Layers = append(made.Layers, Layer{Digest: l.Digest.String(), DiffID: c.RootFS.DiffIDs[i].String(), Size: l.Size})
	}
	return manifest, made, err
}

// addLayer appends one layer.
func (img *image) addLayer(layer v1.Descriptor, diff v1.Hash, at time.Time, how string) {
	img.layers = append(img.layers, layer)
	img.config.RootFS.DiffIDs = append(img.config.RootFS.DiffIDs, diff)
	img.config.History = append(img.config.History, v1.History{Created: v1.Time{Time: at}, CreatedBy: how})
}

// defaultPath is where programs lie in an image that does not say.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// withSkills puts /skills in front of an environment's PATH.
func withSkills(env []string) []string {
	env = slices.Clone(env)
	at := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if at < 0 {
		return append(env, "PATH=/skills:"+defaultPath)
	}
	path := strings.TrimPrefix(env[at], "PATH=")
	if !slices.Contains(strings.Split(path, ":"), "/skills") {
		env[at] = "PATH=/skills:" + path
	}
	return env
}

func mergeMaps(maps ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range maps {
		maps0.Copy(all, m)
	}
	return all
}

// attachDocuments attaches documents to an image: artifacts that name it as their subject.
func (b *builder) attachDocuments(img *image, subject v1.Descriptor, made *Image) (all []v1.Descriptor, err error) {
	if b.Describe == nil {
		return nil, nil
	}
	kit, err := b.Skills.findSpritekit(img.arch)
	if err != nil {
		return nil, err
	}
	docs, err := b.Describe(Contents{Platform: made.Platform, Digest: made.Digest, Files: img.from.files, Spritekit: kit, Time: b.Time})
	if err != nil {
		return nil, fmt.Errorf("describe the image for %s: %w", made.Platform, err)
	}
	config, err := b.layout.writeBytes(emptyJSON, artifactConfig)
	if err != nil {
		return nil, err
	}
	subject.Platform = nil
	for _, doc := range docs {
		blob, err := b.layout.writeBytes(types.MediaType(doc.MediaType), doc.Data)
		if err != nil {
			return nil, err
		}
		blob.Annotations = map[string]string{"org.opencontainers.image.title": doc.Title}
		artifact, err := b.layout.writeDocument(types.OCIManifestSchema1, v1.Manifest{
			SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: doc.MediaType, Config: config,
			Layers: []v1.Descriptor{blob}, Subject: &subject,
			Annotations: map[string]string{"org.opencontainers.image.created": formatTime(b.Time)},
		})
		if err != nil {
			return nil, err
		}
		artifact.ArtifactType = doc.MediaType
		all = append(all, artifact)
		made.Documents = append(made.Documents, Attached{MediaType: doc.MediaType, Title: doc.Title, Digest: blob.Digest.String(), Manifest: artifact.Digest.String()})
	}
	return all, nil
}

// fromRootfs makes a layer of each root filesystem.
func (b *builder) fromRootfs() ([]*image, error) {
	var images []*image
	for _, r := range b.Rootfs {
		b.Tell("read "+r.Path, 0, 0)
		var seen inventory
		layer, diff, err := b.layout.writeLayer(b.ctx, seen.observeTar(b.tarRootfs(r.Path)))
		if err != nil {
			return nil, prefixPath(r.Path, err)
		}
		img := b.emptyBase(cmp.Or(r.Architecture, seen.arch))
		img.from = seen
		img.config.Config.Cmd = []string{"/bin/sh"}
		img.addLayer(layer, diff, b.Time, "lattice image build: root filesystem")
		switch {
		case seen.entries == 0:
			return nil, inputError("", "%s holds no files", r.Path)
		case img.arch == "":
			return nil, inputError("say it: --rootfs linux/ARCH="+r.Path, "%s has no programs that tell its architecture", r.Path)
		case seen.arch != "" && seen.arch != img.arch:
			return nil, inputError("", "the programs of %s are for %s, not for %s", r.Path, seen.arch, img.arch)
		case slices.ContainsFunc(images, func(have *image) bool { return have.arch == img.arch }):
			return nil, inputError("leave one of them out", "there are two root filesystems for %s; the second is %s", img.arch, r.Path)
		}
		images = append(images, img)
	}
	return images, nil
}
