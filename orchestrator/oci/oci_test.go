package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var manifest = []byte(`{"name":"fs.read","inputs":["path"]}`)

// program is as much of an executable as is looked at: a header, and what it embeds.
func program(m elf.Machine, interp bool, embeds ...[]byte) []byte {
	var b bytes.Buffer
	h := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Type: uint16(elf.ET_EXEC),
		Machine: uint16(m), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	if interp {
		h.Phoff, h.Phnum = 64, 1
	}
	_ = binary.Write(&b, binary.LittleEndian, h) // to memory
	if interp {
		_ = binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)})
	}
	for _, e := range embeds {
		b.Write(e)
	}
	return b.Bytes()
}

// skills are those of fake spritekits for both architectures.
func skills(t *testing.T) Skills {
	t.Helper()
	dir := t.TempDir()
	for arch, m := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		write(t, filepath.Join(dir, arch), string(program(m, false, manifest)), 0o755)
	}
	return Skills{
		Architectures: []string{"amd64", "arm64"}, Manifests: map[string][]byte{"fs.read": manifest},
		Spritekit: func(arch string) (string, error) { return filepath.Join(dir, arch), nil },
	}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode))
	if err != nil {
		t.Fatal(err)
	}
}

// system is a small root filesystem with a program for amd64.
func system(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rootfs")
	write(t, filepath.Join(dir, "usr/bin/sh"), string(program(elf.EM_X86_64, true)), 0o755)
	write(t, filepath.Join(dir, "etc/os-release"), "ID=debian\n", 0o644)
	write(t, filepath.Join(dir, "var/lib/dpkg/status"), "Package: a\n", 0o644)
	write(t, filepath.Join(dir, "usr/share/doc/a/copyright"), "free\n", 0o644)
	err := errors.Join(os.Chmod(filepath.Join(dir, "usr/bin/sh"), 0o4755|fs.ModeSetuid), os.Symlink("usr/bin", filepath.Join(dir, "bin")), os.Symlink("a", filepath.Join(dir, "usr/share/doc/b")),
		os.Link(filepath.Join(dir, "etc/os-release"), filepath.Join(dir, "etc/release")), syscall.Mkfifo(filepath.Join(dir, "etc/fifo"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(t *testing.T, r Recipe) (Built, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.oci")
	built, err := Build(t.Context(), r, out, false)
	if err != nil {
		t.Fatal(err)
	}
	return built, out
}

// A build tells how many of the bytes that it reads were read: of a tar and of a folder, in which a file with two names counts once.
func TestBuildTellsProgress(t *testing.T) {
	t.Parallel()
	dir := system(t)
	tarred := filepath.Join(t.TempDir(), "rootfs.tar")
	var packed bytes.Buffer
	if err := (&builder{Recipe: Recipe{Tell: func(string, int64, int64) {}}}).tarRootfs(dir)(&packed); err != nil {
		t.Fatal(err)
	}
	write(t, tarred, packed.String(), 0o644)
	for path, size := range map[string]int64{dir: 120 + 10 + 11 + 5, tarred: int64(packed.Len())} {
		var done, of int64
		build(t, Recipe{Rootfs: []Rootfs{{Path: path}}, Skills: skills(t), Tell: func(step string, n, total int64) {
			if step == "read "+path && total > 0 {
				if n < done || total != size {
					t.Errorf("%s: %d after %d of %d, want of %d", step, n, done, total, size)
				}
				done, of = n, total
			}
		}})
		if done != size || of != size {
			t.Errorf("the last of %s: %d of %d, want %d", path, done, of, size)
		}
	}
}

// read opens a layout with a reader that is not ours, which checks all digests, sizes, histories and media types.
func read(t *testing.T, out string) v1.ImageIndex {
	t.Helper()
	index, err := ggcr.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range top.Manifests {
		switch {
		case d.ArtifactType != "": // whose layers are none, which this reader does not know
		case d.MediaType.IsIndex():
			if nested, nestedErr := index.ImageIndex(d.Digest); nestedErr != nil {
				err = nestedErr
			} else {
				err = validate.Index(nested)
			}
		default:
			if img, imgErr := index.Image(d.Digest); imgErr != nil {
				err = imgErr
			} else {
				err = validate.Image(img)
			}
		}
		if err != nil {
			t.Fatalf("the layout is not valid: %v", err)
		}
	}
	return index
}

func TestBuildFromNothing(t *testing.T) {
	built, out := build(t, Recipe{Skills: skills(t), Tag: "v1", Time: time.Unix(0, 0)})
	index := read(t, out)
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations[annotationName] != "v1" || top.Manifests[0].MediaType != types.OCIImageIndex {
		t.Fatalf("index.json = %+v, %v; want one index of images, called v1", top, err)
	}
	nested, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := nested.Digest(); err != nil || digest.String() != built.Digest {
		t.Errorf("the index is %v, %v; Build said %s", digest, err, built.Digest)
	}
	images, err := nested.IndexManifest()
	if err != nil || len(images.Manifests) != 2 {
		t.Fatalf("the index holds %+v, %v", images, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		img, err := nested.Image(images.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Architecture != arch || config.OS != "linux" || images.Manifests[i].Platform.Architecture != arch {
			t.Errorf("image %d = %+v, %v; want one for %s", i, config, err, arch)
		}
		if diff := cmp.Diff([]string{"PATH=/skills:" + defaultPath}, config.Config.Env); diff != "" {
			t.Errorf("env (-want +got):\n%s", diff)
		}
		machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
		want := []string{
			"drwxr-xr-x skills/", "Lrwxrwxrwx skills/fs.read -> spritekit", "drwxr-xr-x skills/manifests/", "drwxr-xr-x skills/manifests/fs.read/",
			"-r--r--r-- skills/manifests/fs.read/skill.json " + string(manifest),
			`-r--r--r-- skills/manifests/installed.json {"files":["fs.read","manifests/fs.read/skill.json","spritekit"]}`,
			"-r-xr-xr-x skills/spritekit " + string(program(machine, false, manifest)),
		}
		if diff := cmp.Diff(want, listing(t, img, 0)); diff != "" {
			t.Errorf("/skills for %s (-want +got):\n%s", arch, diff)
		}
	}
}

// listing tells a layer, and fails for what is not root's or bears another time than 0.
func listing(t *testing.T, img v1.Image, layer int) (all []string) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[layer].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		data, readErr := io.ReadAll(tr)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d:%d %q, of %v", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		line := h.FileInfo().Mode().String() + " " + h.Name
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		} else if len(data) > 0 {
			line += " " + string(data)
		}
		all = append(all, line)
	}
}

// Equal inputs give equal bytes, whatever the umask, the time zone, the names of folders, and the order in which files were made.
func TestBuildIsReproducible(t *testing.T) {
	contents := func(umask int, reverse bool, zone *time.Location) map[string]string {
		old := syscall.Umask(umask)
		defer syscall.Umask(old)
		dir := filepath.Join(t.TempDir(), "rootfs")
		names := []string{"etc/a", "etc/b", "usr/bin/c", "d"}
		if reverse {
			slices.Reverse(names)
		}
		for _, name := range names {
			write(t, filepath.Join(dir, name), name, 0o640)
		}
		for _, sub := range []string{"etc", "usr", "usr/bin"} {
			if err := os.Chmod(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		describe := func(c Contents) ([]Document, error) {
			return []Document{{MediaType: "text/plain", Title: "a", Data: []byte(c.Digest)}}, nil
		}
		_, out := build(t, Recipe{Rootfs: []Rootfs{{Architecture: "arm64", Path: dir}}, Skills: skills(t), Tag: "x", Time: time.Unix(1e9, 5).In(zone), Describe: describe})
		return tree(t, out)
	}
	want := contents(0o022, false, time.UTC)
	if len(want) != 9 { // two files of the layout, index.json's four blobs and the artifact's three
		t.Errorf("the layout has %d files", len(want))
	}
	for _, umask := range []int{0o077, 0o000} {
		if diff := cmp.Diff(want, contents(umask, true, time.FixedZone("elsewhere", 3600))); diff != "" {
			t.Errorf("with umask %03o the layout differs:\n%s", umask, diff)
		}
	}
}

// tree is the digest and the mode of every file, and the mode of every folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			if info.Mode().Perm() != 0o755 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBuildFromAFolder(t *testing.T) {
	var about Contents
	built, out := build(t, Recipe{Rootfs: []Rootfs{{Path: system(t)}}, Skills: skills(t), Time: time.Unix(0, 0), Describe: func(c Contents) ([]Document, error) {
		about = c
		return []Document{{MediaType: "application/spdx+json", Title: "sbom.json", Data: []byte("{}")}}, nil
	}})
	index := read(t, out)
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 2 {
		t.Fatalf("index.json = %+v, %v", top, err)
	}
	img, err := index.Image(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	shell := string(program(elf.EM_X86_64, true))
	want := []string{
		"Lrwxrwxrwx bin -> usr/bin", "drwxr-xr-x etc/", "prw------- etc/fifo", "-rw-r--r-- etc/os-release ID=debian\n", "-rw-r--r-- etc/release -> etc/os-release",
		"drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "urwxr-xr-x usr/bin/sh " + shell,
		"drwxr-xr-x usr/share/", "drwxr-xr-x usr/share/doc/", "drwxr-xr-x usr/share/doc/a/", "-rw-r--r-- usr/share/doc/a/copyright free\n", "Lrwxrwxrwx usr/share/doc/b -> a",
		"drwxr-xr-x var/", "drwxr-xr-x var/lib/", "drwxr-xr-x var/lib/dpkg/", "-rw-r--r-- var/lib/dpkg/status Package: a\n",
	}
	if diff := cmp.Diff(want, listing(t, img, 0)); diff != "" {
		t.Errorf("the root filesystem (-want +got):\n%s", diff)
	}
	files := map[string][]byte{
		"etc/os-release": []byte("ID=debian\n"), "var/lib/dpkg/status": []byte("Package: a\n"),
		"usr/share/doc/a/copyright": []byte("free\n"), "usr/share/doc/b/copyright": []byte("free\n"),
	}
	if diff := cmp.Diff(files, about.Files); diff != "" || about.Platform != "linux/amd64" || about.Digest != built.Digest {
		t.Errorf("described was %s %s, with (-want +got):\n%s", about.Platform, about.Digest, diff)
	}
	// What was written about the image names it.
	artifact, err := index.Image(top.Manifests[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := artifact.Manifest()
	if err != nil || m.Subject == nil || m.Subject.Digest.String() != built.Digest || m.ArtifactType != "application/spdx+json" || top.Manifests[1].ArtifactType != m.ArtifactType {
		t.Errorf("the artifact = %+v, %v; want one whose subject is %s", m, err, built.Digest)
	}
}

// A tar is taken byte for byte, so that owners survive; how it was compressed does not matter.
func TestBuildFromATar(t *testing.T) {
	var plain, squeezed bytes.Buffer
	w := tar.NewWriter(&plain)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./workspace/", Mode: 0o755, Uid: 1000, ModTime: time.Unix(5, 0)}), w.Close()); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(&squeezed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(plain.Bytes()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	var digests []string
	for name, data := range map[string][]byte{"a.tar": plain.Bytes(), "b.tar.zst": squeezed.Bytes()} {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, string(data), 0o600)
		built, out := build(t, Recipe{Rootfs: []Rootfs{{Architecture: "amd64", Path: path}}, Skills: skills(t), Time: time.Unix(0, 0)})
		read(t, out)
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes())); built.Images[0].Layers[0].DiffID != want {
			t.Errorf("the layer of %s is %s, want the tar itself, %s", name, built.Images[0].Layers[0].DiffID, want)
		}
		digests = append(digests, built.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("compression changed the image: %v", digests)
	}
}

func TestBuildReplacesOnlyLayouts(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	r := Recipe{Skills: skills(t), Tag: "one"}
	write(t, filepath.Join(out, "mine"), "kept", 0o644)
	for _, replace := range []bool{false, true} {
		if _, err := Build(t.Context(), r, out, replace); err == nil || !strings.Contains(err.Error(), "other things in it") {
			t.Errorf("Build over a folder of others = %v", err)
		}
	}
	if err := os.Remove(filepath.Join(out, "mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), r, out, false); err != nil {
		t.Fatal(err)
	}
	first := tree(t, out)
	if _, err := Build(t.Context(), r, out, false); err == nil || !strings.Contains(err.Error(), "is an image already") {
		t.Errorf("Build over a layout = %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(canceled, r, out, true); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped Build = %v", err)
	}
	if diff := cmp.Diff(first, tree(t, out)); diff != "" {
		t.Errorf("refused and stopped builds changed the layout:\n%s", diff)
	}
	r.Tag = "two"
	if _, err := Build(t.Context(), r, out, true); err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(first, tree(t, out)) {
		t.Error("the layout was not replaced")
	}
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 1 {
		t.Errorf("beside the layout lie %v, %v", left, err)
	}
}

// Skills of others lie beside ours, everything root's.
func TestDropIns(t *testing.T) {
	s := skills(t)
	dir := filepath.Join(t.TempDir(), "text.words")
	write(t, filepath.Join(dir, "run"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, "skill.json"), "{}", 0o644)
	s.DropIns = map[string]string{"text.words": dir}
	built, out := build(t, Recipe{Skills: s, Architectures: []string{"amd64"}, Time: time.Unix(0, 0)})
	digest, err := v1.NewHash(built.Digest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := read(t, out).Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	all := listing(t, img, 0)
	want := []string{"drwxr-xr-x skills/text.words/", "-rwxr-xr-x skills/text.words/run #!/bin/sh\n", "-rw-r--r-- skills/text.words/skill.json {}"}
	if diff := cmp.Diff(want, all[len(all)-3:]); diff != "" {
		t.Errorf("the drop-in skill (-want +got):\n%s", diff)
	}
}
