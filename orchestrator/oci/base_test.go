package oci

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ggcr "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/spritekit/lattice/spritekit/fault"
)

// baseLayout is a layout of another tool: docker's media types, an environment, and a whiteout in its second layer.
func baseLayout(t *testing.T, archs ...string) string {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for i, arch := range archs {
		img := empty.Image
		for _, files := range []map[string]string{{"var/lib/dpkg/status": "Package: old\n", "usr/share/doc/a/copyright": "gone\n", "etc/os-release": "ID=x\n"}, {"var/lib/dpkg/status": "Package: new\n", "usr/share/doc/.wh.a": ""}} {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for name, text := range files {
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
					t.Fatal(err)
				}
				_, _ = w.Write([]byte(text)) // to memory
			}
			_ = w.Close()
			layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
			if err != nil {
				t.Fatal(err)
			}
			if img, err = mutate.AppendLayers(img, layer); err != nil {
				t.Fatal(err)
			}
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture, config.History = "linux", arch, nil
		config.Config.Env, config.Config.WorkingDir, config.Config.Labels = []string{"LANG=C", "PATH=/opt/bin"}, "/app", map[string]string{"mine": "kept", "number": fmt.Sprint(i)}
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Annotations: map[string]string{annotationName: "base-" + arch}}})
	}
	dir := filepath.Join(t.TempDir(), "base")
	if _, err := ggcr.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBuildOnAnotherImage(t *testing.T) {
	var about Contents
	base := baseLayout(t, "arm64", "amd64", "s390x")
	built, out := build(t, Recipe{Base: base + "#base-arm64", Skills: skills(t), Time: time.Unix(0, 0), Describe: func(c Contents) ([]Document, error) {
		about = c
		return nil, nil
	}})
	index := read(t, out)
	digest, err := v1.NewHash(built.Digest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil || m.MediaType != types.OCIManifestSchema1 || m.Config.MediaType != types.OCIConfigJSON || len(m.Layers) != 3 {
		t.Fatalf("manifest = %+v, %v", m, err)
	}
	for _, l := range m.Layers {
		if l.MediaType != types.OCILayer {
			t.Errorf("a layer is a %s", l.MediaType)
		}
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.WorkingDir != "/app" || config.Config.Labels["mine"] != "kept" || len(config.History) != 3 {
		t.Errorf("config = %+v, %v; want the base's kept", config, err)
	}
	if diff := cmp.Diff([]string{"LANG=C", "PATH=/skills:/opt/bin"}, config.Config.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	want := map[string][]byte{"etc/os-release": []byte("ID=x\n"), "var/lib/dpkg/status": []byte("Package: new\n")}
	if diff := cmp.Diff(want, about.Files); diff != "" {
		t.Errorf("what all layers leave to see (-want +got):\n%s", diff)
	}
	if both, _ := build(t, Recipe{Base: base, Skills: skills(t)}); len(both.Images) != 2 {
		t.Errorf("on all images stand %+v", both.Images)
	}
	// An image that has the skills is a base, too, and gets no second place in PATH.
	again, out := build(t, Recipe{Base: out, Skills: skills(t), Time: time.Unix(0, 0)})
	read(t, out)
	if n := len(again.Images[0].Layers); n != 4 {
		t.Errorf("built on itself, the image has %d layers", n)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "text"), "no tar at all", 0o644)
	if err := os.MkdirAll(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	spoiled := baseLayout(t, "amd64")
	blobs, err := filepath.Glob(filepath.Join(spoiled, "blobs/sha256/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		if data, err := os.ReadFile(blob); err == nil && bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			write(t, blob, string(append(data, 0)), 0o644)
		}
	}
	twice := baseLayout(t, "amd64", "amd64")
	with := func(change func(*Recipe)) Recipe {
		r := Recipe{Skills: skills(t)}
		change(&r)
		return r
	}
	kit := func(data []byte) Recipe {
		path := filepath.Join(t.TempDir(), "kit")
		write(t, path, string(data), 0o755)
		return with(func(r *Recipe) { r.Skills.Spritekit = func(string) (string, error) { return path, nil } })
	}
	for _, tt := range []struct {
		name   string
		recipe Recipe
		want   string
	}{
		{"both bases", with(func(r *Recipe) { r.Base, r.Rootfs = "x", []Rootfs{{Path: "y"}} }), "not on both"},
		{"no such rootfs", with(func(r *Recipe) { r.Rootfs = []Rootfs{{Path: filepath.Join(dir, "none")}} }), "no such file or folder"},
		{"no tar", with(func(r *Recipe) { r.Rootfs = []Rootfs{{Path: filepath.Join(dir, "text")}} }), "it is no tar"},
		{"empty rootfs", with(func(r *Recipe) { r.Rootfs = []Rootfs{{Path: filepath.Join(dir, "empty")}} }), "holds no files"},
		{"two for one architecture", with(func(r *Recipe) { r.Rootfs = []Rootfs{{Path: system(t)}, {Path: system(t)}} }), "two root filesystems for amd64"},
		{"another architecture than said", with(func(r *Recipe) { r.Rootfs = []Rootfs{{"arm64", system(t)}} }), "are for amd64, not for arm64"},
		{"no base for a platform", with(func(r *Recipe) { r.Rootfs, r.Architectures = []Rootfs{{Path: system(t)}}, []string{"arm64"} }), "no base for linux/arm64"},
		{"no layout", with(func(r *Recipe) { r.Base = dir }), "is not an OCI layout"},
		{"no image of that name", with(func(r *Recipe) { r.Base = twice + "#other" }), "holds no image"},
		{"two images for one machine", with(func(r *Recipe) { r.Base = twice }), "several images for linux/amd64"},
		{"spoiled layer", with(func(r *Recipe) { r.Base = spoiled }), "is damaged or was changed"},
		{"spritekit for another machine", kit(program(elf.EM_RISCV, false, manifest)), "is no program for linux/amd64"},
		{"spritekit that needs a loader", kit(program(elf.EM_X86_64, true, manifest)), "needs a dynamic loader"},
		{"spritekit of another version", kit(program(elf.EM_X86_64, false)), "its fs.read is another one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := Build(t.Context(), tt.recipe, filepath.Join(parent, "out"), false)
			if fault.As(err) == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Build = %v, want a refusal that says %q", err, tt.want)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("a refused build left %v, %v", left, err)
			}
		})
	}
}
