package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// This file attacks the importer with what TestHostileArchives leaves out: several layers, layouts and docker-archives that
// name what lies elsewhere or is not what they say, and archives that cost more than they weigh.

// importing imports what lies at ref beside a secret that must neither change nor get in.
func importing(t *testing.T, o Options, ref, outside string) (map[string]string, error) {
	t.Helper()
	s := openStore(t, o)
	img, err := s.Import(t.Context(), Request{Ref: ref}, nil)
	if diff := cmp.Diff(map[string]string{"secret": "secret"}, contents(t, outside)); diff != "" {
		t.Errorf("outside changed:\n%s", diff)
	}
	if rest, readErr := os.ReadDir(s.pathOf(staging)); readErr != nil || len(rest) > 0 {
		t.Errorf("staging holds %v, %v", rest, readErr)
	}
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("Import = %v, which is no refusal", err)
		}
		if all, err := s.List(); err != nil || len(all) > 0 {
			t.Errorf("List = %v, %v", all, err)
		}
		return nil, err
	}
	in := contents(t, s.Dir(img.Digest))
	for name, text := range in {
		if strings.Contains(text, "secret") && !strings.HasPrefix(text, "->") {
			t.Errorf("%s holds the secret", name)
		}
	}
	return in, nil
}

// secretOutside makes the folder that attacks are aimed at.
func secretOutside(t *testing.T) string {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "secret"), []byte("secret"))
	return outside
}

func wants(t *testing.T, err error, refused string) {
	t.Helper()
	if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
		t.Errorf("Import = %v, want a refusal with %q", err, refused)
	}
}

func TestHostileLayers(t *testing.T) {
	for _, c := range []struct {
		name    string
		layers  [][]item
		refused string
		want    map[string]string
	}{
		{"a whiteout through a link to the host", [][]item{{link("l", "OUTSIDE")}, {file("l/.wh.secret", "")}}, "not there", nil},
		{"an opaque whiteout through a link to the host", [][]item{{link("l", "OUTSIDE")}, {file("l/.wh..wh..opq", "")}}, "not there", nil},
		{"a whiteout of the folder above", [][]item{{dir("d")}, {file("d/.wh...", "")}}, "nothing that can be there", nil},
		{"a whiteout of the folder itself", [][]item{{dir("d")}, {file("d/.wh..", "")}}, "nothing that can be there", nil},
		{"a whiteout with a path in its name", [][]item{{dir("d")}, {file("d/.wh.x/../../../OUTSIDE/secret", "")}}, `".."`, nil},
		{"whiteouts are no folders", [][]item{{dir("d"), file("d/f", "x")}, {dir(".wh.d")}}, "", map[string]string{}},
		{"whiteouts in other letters mean nothing", [][]item{{file("f", "x")}, {file(".WH.f", "")}}, "", map[string]string{"f": "x", ".WH.f": ""}},
		{"names that differ in case stay apart", [][]item{{link("Etc", "OUTSIDE"), dir("etc")}, {file("etc/secret2", "x")}}, "", map[string]string{"Etc": "-> OUTSIDE", "etc": "/", "etc/secret2": "x"}},
		{"a folder that becomes a link in the next layer", [][]item{{dir("d"), file("d/f", "x")}, {link("d", "OUTSIDE"), file("d/secret", "evil")}}, "not there", nil},
		{"a link that becomes a folder in the next layer", [][]item{{link("d", "OUTSIDE")}, {dir("d"), file("d/secret", "mine")}}, "", map[string]string{"d": "/", "d/secret": "mine"}},
		{"a file, a link and a file again of one name", [][]item{{file("f", "1"), link("f", "OUTSIDE/secret"), file("f", "2")}}, "", map[string]string{"f": "2"}},
		{"hard links to links of lower layers", [][]item{{link("l", "OUTSIDE/secret")}, {hard("h", "l"), file("h", "mine")}}, "", map[string]string{"l": "-> OUTSIDE/secret", "h": "mine"}},
		{"a hard link to itself", [][]item{{file("f", "x"), hard("f", "f")}}, "", map[string]string{"f": "x"}},
		{"what a hard link shares with a lower layer is written anew", [][]item{{file("a", "1")}, {hard("b", "a"), file("b", "2")}}, "", map[string]string{"a": "1", "b": "2"}},
		{"a name that is no text", [][]item{{file("\xff\x1b[2J\n", "x")}}, "", map[string]string{"\xff\x1b[2J\n": "x"}},
		{"a device to write to", [][]item{{{tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8, Mode: 0o666}, ""}, file("sda", "mine")}}, "", map[string]string{"sda": "mine"}},
		{"a whiteout as overlay has them", [][]item{{file("f", "x")}, {{tar.Header{Name: "f", Typeflag: tar.TypeChar}, ""}}}, "", map[string]string{"f": "x"}},
		{"an unknown type", [][]item{{{tar.Header{Name: "x", Typeflag: 'Q'}, ""}}}, "unknown here", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			outside := secretOutside(t)
			var layers [][]byte
			for _, items := range c.layers {
				for i := range items {
					items[i].Name = strings.ReplaceAll(items[i].Name, "OUTSIDE", outside)
					items[i].Linkname = strings.ReplaceAll(items[i].Linkname, "OUTSIDE", outside)
				}
				layers = append(layers, pack(t, items...))
			}
			in, err := importing(t, Options{}, layout(t, "amd64", layers...), outside)
			wants(t, err, c.refused)
			for name, text := range in {
				in[name] = strings.ReplaceAll(text, outside, "OUTSIDE")
			}
			if diff := cmp.Diff(c.want, in); diff != "" && err == nil {
				t.Errorf("image (-want +got):\n%s", diff)
			}
		})
	}
}

// documents writes a layout whose index is made by hand. Each of blobs is there under its digest.
func documents(t *testing.T, index any, blobs ...[]byte) string {
	t.Helper()
	to := t.TempDir()
	for _, b := range blobs {
		write(t, filepath.Join(to, "blobs", "sha256", strings.TrimPrefix(sum(b), "sha256:")), b)
	}
	write(t, filepath.Join(to, "index.json"), encoded(t, index))
	write(t, filepath.Join(to, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return to
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

func described(mediaType string, blob []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": sum(blob), "size": len(blob)}
}

func indexOf(descriptors ...map[string]any) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": descriptors}
}

func TestHostileLayouts(t *testing.T) {
	layerTar := pack(t, file("f", "x"))
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + sum(layerTar) + `"]}}`)
	manifestOf := func(config, layer map[string]any) []byte {
		return encoded(t, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []any{layer}})
	}
	good := manifestOf(described(typeConfig, config), described(typeLayer, layerTar))
	with := func(d map[string]any, name string, value any) map[string]any { d[name] = value; return d }
	wide := func(depth int) string { // the same index many times, in each other
		blobs := [][]byte{encoded(t, indexOf())}
		for range depth {
			var all []map[string]any
			for range 2000 {
				all = append(all, described(typeIndex, blobs[len(blobs)-1]))
			}
			blobs = append(blobs, encoded(t, indexOf(all...)))
		}
		return documents(t, indexOf(described(typeIndex, blobs[depth])), blobs...)
	}
	for _, c := range []struct {
		name, dir, refused string
	}{
		{"as it should be", documents(t, indexOf(described(typeManifest, good)), good, config, layerTar), ""},
		{"a manifest that is called an index", documents(t, indexOf(described(typeIndex, good)), good, config, layerTar), "holds no image"},
		{"an index that is called a manifest", documents(t, indexOf(described(typeManifest, encoded(t, indexOf(described(typeManifest, good))))), encoded(t, indexOf(described(typeManifest, good))), good, config, layerTar), "no sha256 digest"},
		{"a layer for a config", documents(t, indexOf(described(typeManifest, manifestOf(described(typeConfig, layerTar), described(typeLayer, layerTar)))), manifestOf(described(typeConfig, layerTar), described(typeLayer, layerTar)), layerTar), "config cannot be read"},
		{"a config for a layer", documents(t, indexOf(described(typeManifest, manifestOf(described(typeConfig, config), described(typeLayer, config)))), manifestOf(described(typeConfig, config), described(typeLayer, config)), config), "damaged"},
		{"indexes in each other, each many times", wide(2), "more than 1000"},
		{"indexes in each other, very deep", wide(3), "deep"},
		{"a digest that is a path", documents(t, indexOf(with(described(typeManifest, good), "digest", "sha256:../../../../etc/passwd"))), ""},
		{"a digest of another kind", documents(t, indexOf(with(described(typeManifest, good), "digest", "sha512:"+strings.Repeat("a", 128)))), ""},
		{"a size below nothing", documents(t, indexOf(with(described(typeManifest, good), "size", -1)), good, config, layerTar), ""},
		{"a size that is another's", documents(t, indexOf(with(described(typeManifest, good), "size", 1<<40)), good, config, layerTar), "its descriptor says"},
		{"no layers where the config tells of one", documents(t, indexOf(described(typeManifest, encoded(t, map[string]any{"schemaVersion": 2, "config": described(typeConfig, config), "layers": []any{}}))), encoded(t, map[string]any{"schemaVersion": 2, "config": described(typeConfig, config), "layers": []any{}}), config), "tells of 1"},
		{"a layer that lies elsewhere", documents(t, indexOf(described(typeManifest, manifestOf(described(typeConfig, config), with(described("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", layerTar), "urls", []string{"http://169.254.169.254/"})))), manifestOf(described(typeConfig, config), with(described("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", layerTar), "urls", []string{"http://169.254.169.254/"})), config), "elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := importing(t, Options{}, c.dir, secretOutside(t))
			switch {
			case strings.HasPrefix(c.name, "a digest"), strings.HasPrefix(c.name, "a size below"):
				if c.name != "a size below nothing" && err == nil {
					t.Error("it is taken")
				}
			default:
				wants(t, err, c.refused)
			}
		})
	}
	for name, damage := range map[string]func(t *testing.T, dir, outside string) error{
		"an index that is a link to the host": func(t *testing.T, dir, outside string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "index.json")), os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "index.json")))
		},
		"blobs that are the host's": func(t *testing.T, dir, outside string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "blobs"), filepath.Join(t.TempDir(), "blobs")), os.Symlink(outside, filepath.Join(dir, "blobs")))
		},
		"an index that nobody writes": func(t *testing.T, dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "index.json")), syscall.Mkfifo(filepath.Join(dir, "index.json"), 0o600))
		},
		"an index without end": func(t *testing.T, dir, _ string) error {
			return os.Truncate(filepath.Join(dir, "index.json"), 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			outside := secretOutside(t)
			dir := layout(t, "amd64", layerTar)
			if err := damage(t, dir, outside); err != nil {
				t.Fatal(err)
			}
			if _, err := importing(t, Options{}, dir, outside); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

// A docker-archive names its files, which are unpacked before they are looked at.
func TestHostileDockerArchives(t *testing.T) {
	layerTar := pack(t, file("f", "x"))
	config := `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + sum(layerTar) + `"]}}`
	for _, c := range []struct {
		name, config, layer string
		more                []item
		refused             string
	}{
		{"as it should be", "c.json", "l.tar", nil, ""},
		{"a config by an absolute path", "OUTSIDE/secret", "l.tar", nil, "cannot be used"},
		{"a config by dot dot", "../../../OUTSIDE/secret", "l.tar", nil, "cannot be used"},
		{"a layer by an absolute path", "c.json", "/etc/passwd", nil, "cannot be used"},
		{"a layer through a link to the host", "c.json", "link", []item{link("link", "OUTSIDE/secret")}, "cannot be used"},
		{"a layer through a folder that is a link to the host", "c.json", "d/secret", []item{link("d", "OUTSIDE")}, "cannot be used"},
		{"a layer that nobody writes", "c.json", "pipe", []item{{tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600}, ""}}, "no file"},
		{"a layer that is a folder", "c.json", "d", []item{dir("d")}, "no file"},
		{"a layer that is not the config's", "c.json", "other.tar", []item{file("other.tar", string(pack(t, file("f", "y"))))}, "config says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			outside := secretOutside(t)
			here := func(s string) string { return strings.ReplaceAll(s, "OUTSIDE", outside) }
			manifest := encoded(t, []map[string]any{{"Config": here(c.config), "RepoTags": []string{"a:b"}, "Layers": []string{here(c.layer)}}})
			items := []item{file("c.json", config), file("l.tar", string(layerTar)), file("manifest.json", string(manifest))}
			for _, i := range c.more {
				i.Linkname = here(i.Linkname)
				items = append(items, i)
			}
			_, err := importing(t, Options{}, write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, items...)), outside)
			wants(t, err, c.refused)
		})
	}
}

// sparse is a tar of one file that is a hole of n bytes, as GNU tar writes it: half a kilobyte says so.
func sparse(t *testing.T, n int64) []byte {
	t.Helper()
	data := pack(t, item{tar.Header{Name: "hole", Typeflag: tar.TypeReg, Mode: 0o600, Format: tar.FormatGNU}, ""})
	number := func(at, width int, n int64) { // base 256
		for i := width - 1; i > 0; i-- {
			data[at+i] = byte(n)
			n >>= 8
		}
		data[at] = 0x80
	}
	data[156] = tar.TypeGNUSparse
	number(386, 12, n) // a piece of no bytes at its end
	number(398, 12, 0)
	number(483, 12, n)
	copy(data[148:156], "        ")
	sum := 0
	for _, b := range data[:512] {
		sum += int(b)
	}
	copy(data[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

// An archive that says it holds more than it weighs costs no more than the limits say, and ends with who asked for it.
func TestArchivesThatGrow(t *testing.T) {
	in := func(data []byte) string { return write(t, filepath.Join(t.TempDir(), "x.tar"), data) }
	for name, data := range map[string][]byte{
		"a hole":              sparse(t, 1<<50),
		"a hole in gzip":      gzipped(t, sparse(t, 1<<62)),
		"nested compressions": gzipped(t, gzipped(t, pack(t, file("f", strings.Repeat("\x00", 1<<22))))),
		"gzip in pieces":      bytes.Repeat(gzipped(t, make([]byte, 1<<20)), 64),
	} {
		if _, err := importing(t, Options{Limits: Limits{Bytes: 1 << 20}}, in(data), secretOutside(t)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := importing(t, Options{}, in(sparse(t, 1<<26)), secretOutside(t)); err != nil {
		t.Errorf("a hole within the limits: %v", err)
	}

	// Nobody waits for a hole to be measured out.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hole := bytes.NewReader(sparse(t, 1<<59))
	x, err := newExtraction(t.TempDir(), 0, Limits{Bytes: 1 << 60}, func(int, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if err := x.unpackLayer(ctx, readerFunc(func(p []byte) (int, error) { cancel(); return hole.Read(p) }), false); !errors.Is(err, context.Canceled) {
		t.Errorf("layer = %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestReplacedFolders checks that the time of a folder is not set through a file or link that replaced one of its parents.
func TestReplacedFolders(t *testing.T) {
	t.Parallel()
	later := dir("c/b")
	later.ModTime = time.Unix(2e9, 0)
	for name, upper := range map[string][]item{
		"a file":                    {file("a", "x")},
		"a link that leads nowhere": {link("a", "none")},
		"a link from the root":      {link("a", "/c"), later},
		"a link out of the image":   {link("a", "../../c"), later},
		"a link to another folder":  {link("a", "c"), later},
		"a folder without them":     {file(".wh.a", ""), dir("a"), later},
	} {
		root := t.TempDir()
		x, err := newExtraction(root, 0, Limits{}, func(int, int64) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, items := range [][]item{{dir("a"), dir("a/b"), dir("a/b/d"), dir("c"), dir("c/b"), dir("c/b/d")}, upper} {
			if err := x.unpackLayer(t.Context(), bytes.NewReader(pack(t, items...)), true); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := x.setDeferred(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		x.close()
		info, err := os.Lstat(filepath.Join(root, "c/b"))
		if err != nil || len(upper) > 1 && info.ModTime().Unix() != 2e9 {
			t.Errorf("%s: the other folder is of %v, %v", name, info.ModTime(), err)
		}
	}
}
