package image

import (
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ggcr "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layouts as go-containerregistry writes them repeat the config's type as the artifact type of an image; true artifacts
// beside it are no images.
func TestImportTakesLayoutsOfOtherTools(t *testing.T) {
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(pack(t, file("etc/made", "by another")), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	l, err := ggcr.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	artifact := v1.Descriptor{MediaType: types.OCIManifestSchema1, ArtifactType: "application/spdx+json", Digest: digest, Size: 1}
	if err := l.AppendDescriptor(artifact); err != nil {
		t.Fatal(err)
	}
	got, err := openStore(t, Options{Architecture: "amd64"}).Import(t.Context(), Request{Ref: dir}, nil)
	if err != nil || got.Digest != digest.String() {
		t.Errorf("Import = %+v, %v; want %s", got, err, digest)
	}
}
