package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	layoutFile     = "oci-layout"
	indexFile      = "index.json"
	dockerManifest = "manifest.json"

	maxDocument = 4 << 20 // bytes of an index, a manifest or a config
	maxLayers   = 500
	maxNested   = 4 // indexes in each other
)

// annotationName is the annotation of an index that holds an image's name.
const annotationName = "org.opencontainers.image.ref.name"

// findLayout reads an OCI layout.
func (s *Store) findLayout(dir, choice string) (*found, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := s.readLayout(root, choice)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

func (s *Store) readLayout(root *os.Root, choice string) (*found, error) {
	data, err := readDocument(root, indexFile, -1)
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, refuseImage("its %s cannot be read: %v", indexFile, err)
	}
	var all []v1.Descriptor
	indexes := 0
	if err := gatherManifests(root, index, "", maxNested, &indexes, &all); err != nil {
		return nil, err
	}
	desc, err := s.chooseManifest(all, choice)
	if err != nil {
		return nil, err
	}
	if data, err = readBlob(root, desc); err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return nil, refuseImage("the manifest %s cannot be read: %v", desc.Digest, err)
	}
	if data, err = readBlob(root, manifest.Config); err != nil {
		return nil, err
	}
	f, err := s.readConfig(data)
	if err != nil {
		return nil, err
	}
	if len(f.layers) != len(manifest.Layers) {
		return nil, refuseImage("the image %s has %d layers, and its config tells of %d", desc.Digest, len(manifest.Layers), len(f.layers))
	}
	for i, l := range manifest.Layers {
		if len(l.URLs) > 0 && !l.MediaType.IsDistributable() {
			return nil, refuseImage("the layer %s lies elsewhere, at %s", l.Digest, l.URLs[0])
		}
		name, err := blobPath(l.Digest)
		if err != nil {
			return nil, err
		}
		f.layers[i].digest = l.Digest.String()
		f.layers[i].open = func() (io.ReadCloser, error) { return openSized(root, name, l.Size) }
	}
	f.kind, f.digest, f.close = KindOCI, desc.Digest.String(), root.Close
	return f, nil
}

// gatherManifests lists the images of an index and of those in it. name is the name of the index that contains them.
// indexes counts them: each may name the same one many times.
func gatherManifests(root *os.Root, index *v1.IndexManifest, name string, depth int, indexes *int, all *[]v1.Descriptor) error {
	if depth == 0 {
		return refuseImage("its indexes lie in each other more than %d deep", maxNested)
	}
	if *indexes++; *indexes > 1000 {
		return refuseImage("it holds more than 1000 indexes")
	}
	for _, d := range index.Manifests {
		if len(*all) > 1000 {
			return refuseImage("it holds more than 1000 images")
		}
		if d.Annotations[annotationName] == "" && name != "" {
			d.Annotations = map[string]string{annotationName: name}
		}
		switch {
		case d.MediaType.IsIndex():
			data, err := readBlob(root, d)
			if err != nil {
				return err
			}
			nested, err := v1.ParseIndexManifest(bytes.NewReader(data))
			if err != nil {
				return refuseImage("the index %s cannot be read: %v", d.Digest, err)
			}
			if err := gatherManifests(root, nested, d.Annotations[annotationName], depth-1, indexes, all); err != nil {
				return err
			}
		case !d.MediaType.IsImage() || isArtifact(d.ArtifactType) || d.Platform != nil && d.Platform.OS == "unknown":
			// attestations, signatures and the like
		default:
			*all = append(*all, d)
		}
	}
	return nil
}

// isArtifact reports whether kind is not an image. Some tools repeat an image's config type here.
func isArtifact(kind string) bool { return kind != "" && !types.MediaType(kind).IsConfig() }

// chooseManifest finds the one image for the architecture of sprites.
func (s *Store) chooseManifest(all []v1.Descriptor, choice string) (v1.Descriptor, error) {
	var fits []v1.Descriptor
	var others, names []string
	// A name takes precedence over the prefix of a digest.
	named := slices.ContainsFunc(all, func(d v1.Descriptor) bool { return d.Annotations[annotationName] == choice })
	for _, d := range all {
		name := d.Annotations[annotationName]
		if choice != "" && choice != name && (named || !isDigest(d.Digest, choice)) {
			names = append(names, name)
			continue
		}
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != s.o.Architecture) {
			others = append(others, p.OS+"/"+p.Architecture)
			continue
		}
		if !slices.ContainsFunc(fits, func(f v1.Descriptor) bool { return f.Digest == d.Digest }) {
			fits = append(fits, d)
			names = append(names, name)
		}
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1 && choice == "":
		return v1.Descriptor{}, &Refusal{fmt.Sprintf("it holds %d images for linux/%s: %s", len(fits), s.o.Architecture, strings.Join(names, ", ")), "choose one by its name or digest: PATH#NAME"}
	case len(fits) > 1:
		return v1.Descriptor{}, &Refusal{fmt.Sprintf("%d images in it are called %s", len(fits), choice), "choose one by its digest: PATH#sha256:…"}
	case len(others) > 0:
		return v1.Descriptor{}, &Refusal{fmt.Sprintf("it holds no image for linux/%s, only for %s", s.o.Architecture, strings.Join(slices.Compact(slices.Sorted(slices.Values(others))), ", ")), "sprites run on this machine's architecture; get the image for that"}
	case choice != "" && len(names) > 0:
		return v1.Descriptor{}, refuseImage("it holds no image %s, only %s", choice, strings.Join(names, ", "))
	}
	return v1.Descriptor{}, refuseImage("it holds no image")
}

// isDigest reports whether choice is h, or a prefix of it with at least one digit.
func isDigest(h v1.Hash, choice string) bool {
	digits, _ := strings.CutPrefix(choice, h.Algorithm+":")
	return digits != "" && strings.HasPrefix(h.Hex, digits)
}

// readConfig takes the layers and the settings from an image's config.
func (s *Store) readConfig(data []byte) (*found, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, refuseImage("the image's config cannot be read: %v", err)
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != s.o.Architecture {
		return nil, &Refusal{fmt.Sprintf("it is an image for %s/%s, and sprites run linux/%s", c.OS, c.Architecture, s.o.Architecture), "get the image for that architecture"}
	}
	if len(c.RootFS.DiffIDs) > maxLayers {
		return nil, refuseImage("the image has more than %d layers", maxLayers)
	}
	f := &found{arch: c.Architecture, config: Config{Env: c.Config.Env, WorkingDir: c.Config.WorkingDir, User: c.Config.User, Labels: c.Config.Labels}}
	for _, id := range c.RootFS.DiffIDs {
		f.layers = append(f.layers, layer{diffID: id.String(), claimed: true, whiteouts: true})
	}
	return f, nil
}

// findDocker reads a docker-archive that was unpacked to dir.
func (s *Store) findDocker(dir, choice string) (*found, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := s.readDocker(root, choice)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

func (s *Store) readDocker(root *os.Root, choice string) (*found, error) {
	data, err := readDocument(root, dockerManifest, -1)
	if err != nil {
		return nil, err
	}
	var all []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, refuseImage("its %s cannot be read: %v", dockerManifest, err)
	}
	at, tags := -1, []string{}
	for i, m := range all {
		tags = append(tags, m.RepoTags...)
		if slices.Contains(m.RepoTags, choice) || choice == "" && len(all) == 1 {
			at = i
		}
	}
	if at < 0 {
		return nil, &Refusal{fmt.Sprintf("it holds %d images: %s", len(all), strings.Join(tags, ", ")), "choose one: PATH#NAME"}
	}
	m := all[at]
	if data, err = readDocument(root, m.Config, -1); err != nil {
		return nil, err
	}
	f, err := s.readConfig(data)
	if err != nil {
		return nil, err
	}
	if len(f.layers) != len(m.Layers) {
		return nil, refuseImage("the image has %d layers, and its config tells of %d", len(m.Layers), len(f.layers))
	}
	for i, name := range m.Layers {
		f.layers[i].open = func() (io.ReadCloser, error) { return openSized(root, name, -1) }
	}
	sum := sha256.Sum256(data)
	f.kind, f.digest, f.close = KindDocker, "sha256:"+hex.EncodeToString(sum[:]), root.Close
	return f, nil
}

// blobPath is where a layout has a blob.
func blobPath(h v1.Hash) (string, error) {
	if h.Algorithm != "sha256" || len(h.Hex) != sha256.Size*2 || strings.Trim(h.Hex, "0123456789abcdef") != "" {
		return "", refuseImage("%q is no sha256 digest, the only kind that is checked here", h)
	}
	return path.Join("blobs", h.Algorithm, h.Hex), nil
}

// readBlob reads a small blob and holds it against its digest.
func readBlob(root *os.Root, d v1.Descriptor) ([]byte, error) {
	name, err := blobPath(d.Digest)
	if err != nil {
		return nil, err
	}
	data, err := readDocument(root, name, d.Size)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != d.Digest.Hex {
		return nil, refuseImage("the blob %s is damaged or was changed", d.Digest)
	}
	return data, nil
}

// readDocument reads a file of a layout, of the given size unless that is negative.
func readDocument(root *os.Root, name string, size int64) ([]byte, error) {
	f, err := openSized(root, name, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = refuseImage("%s has more than %d bytes", name, maxDocument)
	}
	return data, err
}

// openSized opens a file of a layout. Links in it do not lead out of it, and nothing but a file is opened.
func openSized(root *os.Root, name string, size int64) (io.ReadCloser, error) {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuseImage("%s is missing in it", name)
	case err != nil:
		return nil, refuseImage("%s in it cannot be used: %v", name, err)
	case !info.Mode().IsRegular():
		return nil, refuseImage("%s in it is no file", name)
	case size >= 0 && info.Size() != size:
		return nil, refuseImage("%s in it has %d bytes, where its descriptor says %d", name, info.Size(), size)
	}
	return root.Open(name)
}
