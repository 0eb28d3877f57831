package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is an entry of a test's tar.
type item struct {
	tar.Header
	text string
}

func file(name, text string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}, text}
}

func dir(name string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1e9, 0)}, ""}
}

func link(name, to string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, ""}
}

func hard(name, to string) item {
	return item{tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}, ""}
}

func pack(t *testing.T, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if err := w.WriteHeader(&i.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// shift is what a host of this user adds to ids.
func shift() int {
	if os.Geteuid() == 0 {
		return 100000
	}
	return 0
}

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Shift == nil {
		o.Shift = shift
	}
	if o.Architecture == "" {
		o.Architecture = "amd64"
	}
	s, err := Open(filepath.Join(t.TempDir(), "images"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sum(data []byte) string {
	d := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(d[:])
}

// layout writes an OCI layout of layers that is called by name in its index, and returns its folder.
func layout(t *testing.T, arch string, layers ...[]byte) string {
	t.Helper()
	to := t.TempDir()
	blob := func(data []byte) map[string]any {
		write(t, filepath.Join(to, "blobs", "sha256", strings.TrimPrefix(sum(data), "sha256:")), data)
		return map[string]any{"digest": sum(data), "size": len(data)}
	}
	object := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	diffs, descs := []string{}, []any{}
	for _, l := range layers {
		diffs = append(diffs, sum(l))
		d := blob(gzipped(t, l))
		d["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip"
		descs = append(descs, d)
	}
	config := blob(object(map[string]any{
		"architecture": arch, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		"config": map[string]any{"Env": []string{"PATH=/opt/bin", "A=b"}, "WorkingDir": "/srv", "User": "nobody", "Labels": map[string]string{"l": "m"}},
	}))
	config["mediaType"] = "application/vnd.oci.image.config.v1+json"
	manifest := blob(object(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": descs}))
	manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
	manifest["platform"] = map[string]any{"os": "linux", "architecture": arch}
	write(t, filepath.Join(to, "index.json"), object(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}))
	write(t, filepath.Join(to, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return to
}

// contents lists a tree: path → text of a file, target of a link, "/" of a folder.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			all[name] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			all[name] = "-> " + to
			return err
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			all[name] = string(data)
			return err
		default:
			all[name] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImport(t *testing.T) {
	plain := pack(t, dir("./"), dir("./bin"), file("./bin/tool", "t"), link("./sbin", "bin"), hard("./bin/same", "bin/tool"), file("sbin/more", "m"))
	want := map[string]string{"bin": "/", "bin/tool": "t", "bin/same": "t", "bin/more": "m", "sbin": "-> bin"}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "bin/tool"), []byte("t"))
	write(t, filepath.Join(folder, "bin/more"), []byte("m"))
	if err := errors.Join(os.Link(filepath.Join(folder, "bin/tool"), filepath.Join(folder, "bin/same")), os.Symlink("bin", filepath.Join(folder, "sbin"))); err != nil {
		t.Fatal(err)
	}
	oci := layout(t, "amd64", plain)
	var blobs []item
	for name, text := range contents(t, oci) {
		if text != "/" {
			blobs = append(blobs, file(name, text))
		}
	}
	config := []byte(`{"architecture":"amd64","os":"linux","config":{"Env":["A=b"]},"rootfs":{"type":"layers","diff_ids":["` + sum(plain) + `"]}}`)
	docker := pack(t, file("c.json", string(config)), dir("l1"), file("l1/layer.tar", string(plain)), file("manifest.json", `[{"Config":"c.json","RepoTags":["a:b"],"Layers":["l1/layer.tar"]}]`))
	at := t.TempDir()
	tests := []struct {
		name, ref, digest, called string
		kind                      Kind
	}{
		{"tar", write(t, filepath.Join(at, "a.tar"), plain), sum(plain), "a", KindRootfs},
		{"tar in gzip", write(t, filepath.Join(at, "b.tar.gz"), gzipped(t, plain)), sum(plain), "b", KindRootfs},
		{"tar in zstd", write(t, filepath.Join(at, "c.tar.zst"), zstded(t, plain)), sum(plain), "c", KindRootfs},
		{"folder", folder, "", "", KindRootfs},
		{"layout", oci, "", "", KindOCI},
		{"layout in a tar", write(t, filepath.Join(at, "d.oci.tar"), pack(t, blobs...)), "", "d", KindOCI},
		{"docker-archive", write(t, filepath.Join(at, "e.tar"), docker), sum(config), "e", KindDocker},
		{"docker-archive in gzip", write(t, filepath.Join(at, "f.tgz"), gzipped(t, docker)), sum(config), "f", KindDocker},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t, Options{})
			img, err := s.Import(context.Background(), Request{Ref: tt.ref}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, contents(t, s.Dir(img.Digest))); diff != "" {
				t.Errorf("unpacked (-want +got):\n%s", diff)
			}
			if img.Kind != tt.kind || tt.digest != "" && img.Digest != tt.digest || tt.called != "" && img.Short() != tt.called {
				t.Errorf("Import = %+v, want kind %s, digest %s, name %s", img, tt.kind, tt.digest, tt.called)
			}
			again, err := s.Import(context.Background(), Request{Ref: tt.ref, Name: "other"}, nil)
			if err != nil || again.Digest != img.Digest || !again.ImportedAt.Equal(img.ImportedAt) {
				t.Errorf("second Import = %+v, %v, want the first one's", again, err)
			}
			for _, ref := range []string{img.Digest, img.Digest[7:15], "other", tt.ref} {
				if got, err := s.Get(ref); err != nil || got.Digest != img.Digest {
					t.Errorf("Get(%s) = %v, %v", ref, got.Digest, err)
				}
			}
			if rest, err := os.ReadDir(s.pathOf(staging)); err != nil || len(rest) > 0 {
				t.Errorf("staging holds %v, %v", rest, err)
			}
		})
	}
}

func TestConfigOfImage(t *testing.T) {
	s := openStore(t, Options{})
	img, err := s.Import(context.Background(), Request{Ref: layout(t, "amd64", pack(t, file("f", "x")))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Env: []string{"PATH=/opt/bin", "A=b"}, WorkingDir: "/srv", User: "nobody", Labels: map[string]string{"l": "m"}}
	if diff := cmp.Diff(want, img.Config); diff != "" {
		t.Error(diff)
	}
}

func TestWhiteouts(t *testing.T) {
	base := pack(t, dir("d"), file("d/a", "1"), file("d/b", "1"), dir("d/sub"), file("d/sub/x", "1"), file("gone", "1"), dir("old"), file("old/x", "1"), link("l", "d"))
	tests := []struct {
		name string
		up   []item
		want map[string]string
	}{
		{"a file", []item{file(".wh.gone", ""), file("d/.wh.a", "")},
			map[string]string{"d": "/", "d/b": "1", "d/sub": "/", "d/sub/x": "1", "old": "/", "old/x": "1", "l": "-> d"}},
		{"a folder, made anew before its whiteout", []item{dir("old"), file("old/new", "2"), file(".wh.old", "")},
			map[string]string{"d": "/", "d/a": "1", "d/b": "1", "d/sub": "/", "d/sub/x": "1", "gone": "1", "old": "/", "old/new": "2", "l": "-> d"}},
		{"opaque, before and after what the layer brings", []item{file("d/n1", "2"), file("d/sub/deep", "2"), file("d/.wh..wh..opq", ""), file("d/n2", "2")},
			map[string]string{"d": "/", "d/n1": "2", "d/n2": "2", "d/sub": "/", "d/sub/deep": "2", "gone": "1", "old": "/", "old/x": "1", "l": "-> d"}},
		{"opaque root", []item{file(".wh..wh..opq", ""), file("only", "2")}, map[string]string{"only": "2"}},
		{"what is not there, and notes of aufs", []item{file(".wh.never", ""), file(".wh..wh.plnk", "")},
			map[string]string{"d": "/", "d/a": "1", "d/b": "1", "d/sub": "/", "d/sub/x": "1", "gone": "1", "old": "/", "old/x": "1", "l": "-> d"}},
		{"a link goes, what it leads to stays", []item{file(".wh.l", "")},
			map[string]string{"d": "/", "d/a": "1", "d/b": "1", "d/sub": "/", "d/sub/x": "1", "gone": "1", "old": "/", "old/x": "1"}},
		{"a folder in place of a file, and the other way", []item{dir("gone"), file("gone/in", "2"), file("old", "2")},
			map[string]string{"d": "/", "d/a": "1", "d/b": "1", "d/sub": "/", "d/sub/x": "1", "gone": "/", "gone/in": "2", "old": "2", "l": "-> d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t, Options{})
			img, err := s.Import(context.Background(), Request{Ref: layout(t, "amd64", base, pack(t, tt.up...))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, contents(t, s.Dir(img.Digest))); diff != "" {
				t.Errorf("image (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("none in a root filesystem", func(t *testing.T) {
		s := openStore(t, Options{})
		img, err := s.Import(context.Background(), Request{Ref: write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, file("a", "1"), file(".wh.a", "")))}, nil)
		if diff := cmp.Diff(map[string]string{"a": "1", ".wh.a": ""}, contents(t, s.Dir(img.Digest))); err != nil || diff != "" {
			t.Errorf("image (-want +got):\n%s, %v", diff, err)
		}
	})
}

// Archives that try to reach what lies outside. Nothing outside may change, whatever becomes of the import.
func TestHostileArchives(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+1)
	tests := []struct {
		name    string
		items   []item
		refused string // part of the reason; "" = harmless inside
	}{
		{"dot dot", []item{file("../escaped", "x")}, `".."`},
		{"dot dot in the middle", []item{dir("a"), file("a/../../escaped", "x")}, `".."`},
		{"an absolute name stays inside", []item{file("/escaped", "x")}, ""},
		{"through an absolute link, which leads into the image", []item{link("l", "/"), file("l/inside", "x")}, ""},
		{"through a link to what only the host has", []item{link("l", "OUTSIDE"), file("l/escaped", "x")}, "not there"},
		{"through a link upwards", []item{link("l", "../../../../../../.."), file("l/inside", "x")}, ""},
		{"through a chain of links", []item{link("a", "OUTSIDE"), link("b", "a"), file("b/escaped", "x")}, "not there"},
		{"a link in place of a folder", []item{dir("d"), link("d", "OUTSIDE"), file("d/escaped", "x")}, "not there"},
		{"links in a circle", []item{link("a", "b"), link("b", "a"), file("a/x", "x")}, "links"},
		{"a file through a link is a file in its place", []item{link("l", "OUTSIDE/escaped"), file("l", "x")}, ""},
		{"a folder in place of a link", []item{link("l", "OUTSIDE"), dir("l"), file("l/x", "x")}, ""},
		{"a hard link to the host", []item{hard("h", "OUTSIDE/secret")}, "not there"},
		{"a hard link by dot dot", []item{hard("h", "../../secret")}, `".."`},
		{"a hard link through a link", []item{link("l", "OUTSIDE"), hard("h", "l/secret")}, "not there"},
		{"a hard link to a link, then written", []item{link("l", "OUTSIDE/escaped"), hard("h", "l"), file("h", "x")}, ""},
		{"a hard link to a folder", []item{dir("d"), hard("h", "d")}, "folder"},
		{"below a file", []item{file("f", "x"), file("f/g", "x")}, "no folder"},
		{"too deep", []item{file(deep+"f", "x")}, "folders deep"},
		{"too long a name", []item{file(strings.Repeat("n", maxName+1), "x")}, "longer than"},
		{"the root as a file", []item{file(".", "x")}, "no folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			outside := filepath.Join(t.TempDir(), "outside")
			write(t, filepath.Join(outside, "secret"), []byte("secret"))
			for i := range tt.items {
				tt.items[i].Linkname = strings.ReplaceAll(tt.items[i].Linkname, "OUTSIDE", outside)
			}
			s := openStore(t, Options{})
			img, err := s.Import(context.Background(), Request{Ref: write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, tt.items...))}, nil)
			var refusal *Refusal
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("Import: %v", err)
			case tt.refused != "" && (!errors.As(err, &refusal) || !strings.Contains(refusal.Reason, tt.refused)):
				t.Errorf("Import = %v, want a refusal with %q", err, tt.refused)
			case err == nil:
				for name, text := range contents(t, s.Dir(img.Digest)) {
					if text == "secret" {
						t.Errorf("%s holds the host's secret", name)
					}
				}
			}
			if diff := cmp.Diff(map[string]string{"secret": "secret"}, contents(t, outside)); diff != "" {
				t.Errorf("outside changed:\n%s", diff)
			}
			if all, err := s.List(); err != nil || tt.refused != "" && len(all) > 0 {
				t.Errorf("List = %v, %v", all, err)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	import_ := func(t *testing.T, l Limits, data []byte) error {
		t.Helper()
		_, err := openStore(t, Options{Limits: l}).Import(context.Background(), Request{Ref: write(t, filepath.Join(t.TempDir(), "x.tar"), data)}, nil)
		return err
	}
	sparse := item{tar.Header{Name: "s", Typeflag: tar.TypeReg, Size: 1 << 20, Mode: 0o600}, strings.Repeat("\x00", 1<<20)}
	tests := []struct {
		name string
		l    Limits
		data []byte
		want string
	}{
		{"entries", Limits{Entries: 2}, pack(t, file("a", ""), file("b", ""), file("c", "")), "more than 2 entries"},
		{"bytes", Limits{Bytes: 1 << 16}, pack(t, sparse), "more than 65536 bytes"},
		{"a bomb", Limits{Bytes: 1 << 16}, gzipped(t, pack(t, sparse)), "more than 65536 bytes"},
		{"cut off", Limits{}, pack(t, sparse)[:4000], "damaged"},
		{"no tar", Limits{}, []byte(strings.Repeat("no tar at all ", 100)), "no tar"},
		{"nothing", Limits{}, nil, "no files"},
		{"cut gzip", Limits{}, gzipped(t, pack(t, file("a", "b")))[:40], "damaged"},
		{"xz", Limits{}, []byte("\xfd7zXZ\x00..."), "compressed by xz"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var refusal *Refusal
			if err := import_(t, tt.l, tt.data); !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, tt.want) {
				t.Errorf("Import = %v, want a refusal with %q", err, tt.want)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	data := pack(t,
		item{tar.Header{Name: "shut", Typeflag: tar.TypeDir, Mode: 0o000, ModTime: time.Unix(5e8, 0)}, ""},
		item{tar.Header{Name: "shut/in", Typeflag: tar.TypeReg, Mode: 0o4711, Uid: 33, Gid: 70000, ModTime: time.Unix(6e8, 0)}, ""},
		item{tar.Header{Name: "dev", Typeflag: tar.TypeBlock, Mode: 0o666, Devmajor: 8}, ""},
		item{tar.Header{Name: "whiteout", Typeflag: tar.TypeChar}, ""},
		item{tar.Header{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o622}, ""},
		item{tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/nowhere", ModTime: time.Unix(7e8, 0)}, ""},
		item{tar.Header{Name: "attr", Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX, PAXRecords: map[string]string{
			paxAttr + "user.kept": "v", paxAttr + "trusted.overlay.redirect": "/etc", paxAttr + "user.overlay.opaque": "y", paxAttr + "security.capability": "x"}}, ""},
		item{tar.Header{Name: "sparse", Typeflag: tar.TypeReg, Mode: 0o644, Size: 1 << 20}, strings.Repeat("\x00", 1<<20)},
	)
	s := openStore(t, Options{})
	img, err := s.Import(context.Background(), Request{Ref: write(t, filepath.Join(t.TempDir(), "x.tar"), data)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := s.Dir(img.Digest)
	stat := func(name string) (os.FileInfo, *syscall.Stat_t) {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return info, info.Sys().(*syscall.Stat_t)
	}
	shut, _ := stat("shut")
	in, owner := stat("shut/in")
	if shifted := shift(); shifted > 0 {
		if shut.Mode().Perm() != 0 || in.Mode() != 0o711|fs.ModeSetuid || int(owner.Uid) != shifted+33 || int(owner.Gid) != shifted+nobody {
			t.Errorf("modes %v, %v, owner %d:%d; want them kept and shifted", shut.Mode(), in.Mode(), owner.Uid, owner.Gid)
		}
		if img.LeftOut != (LeftOut{Devices: 2, Attributes: 3, Owners: 1}) {
			t.Errorf("left out: %+v", img.LeftOut)
		}
	} else {
		if shut.Mode().Perm() != 0o700 || in.Mode() != 0o711 || int(owner.Uid) != os.Getuid() {
			t.Errorf("modes %v, %v, owner %d; want usable ones, and ours", shut.Mode(), in.Mode(), owner.Uid)
		}
		if img.LeftOut != (LeftOut{Devices: 2, Attributes: 3, Setid: 1}) {
			t.Errorf("left out: %+v", img.LeftOut)
		}
	}
	for name, want := range map[string]int64{"shut": 5e8, "shut/in": 6e8, "link": 7e8} {
		if info, _ := stat(name); info.ModTime().Unix() != want {
			t.Errorf("time of %s = %v, want %d", name, info.ModTime(), want)
		}
	}
	if fifo, _ := stat("fifo"); fifo.Mode() != fs.ModeNamedPipe|0o622 && shift() > 0 {
		t.Errorf("fifo has mode %v", fifo.Mode())
	}
	if info, st := stat("sparse"); info.Size() != 1<<20 || st.Blocks > 64 {
		t.Errorf("sparse file: %d bytes in %d blocks", info.Size(), st.Blocks)
	}
	f, err := os.Open(filepath.Join(root, "attr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := attrsOf(f); err != nil || got["user.kept"] != "v" || len(got) != 1 {
		t.Errorf("attributes = %v, %v", got, err)
	}
}

func TestDamagedLayouts(t *testing.T) {
	good := pack(t, file("f", "x"))
	blob := func(dir, digest string) string { return filepath.Join(dir, "blobs/sha256", digest[7:]) }
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"a layer that was exchanged", func(t *testing.T, dir string) {
			old, new := gzipped(t, good), gzipped(t, pack(t, file("f", "y")))
			if len(old) != len(new) {
				t.Fatal("sizes differ")
			}
			write(t, blob(dir, sum(old)), new)
		}, "damaged or was changed"},
		{"a layer that grew", func(t *testing.T, dir string) {
			old := gzipped(t, good)
			write(t, blob(dir, sum(old)), append(old, 0))
		}, "its descriptor says"},
		{"a layer that is missing", func(t *testing.T, dir string) {
			if err := os.Remove(blob(dir, sum(gzipped(t, good)))); err != nil {
				t.Fatal(err)
			}
		}, "missing"},
		{"a layer that is a link out of it", func(t *testing.T, dir string) {
			b := blob(dir, sum(gzipped(t, good)))
			if err := errors.Join(os.Rename(b, filepath.Join(t.TempDir(), "b")), os.Symlink("/etc/passwd", b)); err != nil {
				t.Fatal(err)
			}
		}, "cannot be used"},
		{"no index", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "index.json")) }, "index.json is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := layout(t, "amd64", good)
			tt.damage(t, dir)
			s := openStore(t, Options{})
			var refusal *Refusal
			if _, err := s.Import(context.Background(), Request{Ref: dir}, nil); !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, tt.want) {
				t.Errorf("Import = %v, want a refusal with %q", err, tt.want)
			}
			if all, _ := s.List(); len(all) > 0 {
				t.Errorf("List = %v", all)
			}
		})
	}
	t.Run("another architecture", func(t *testing.T) {
		_, err := openStore(t, Options{}).Import(context.Background(), Request{Ref: layout(t, "arm64", good)}, nil)
		if err == nil || !strings.Contains(err.Error(), "no image for linux/amd64, only for linux/arm64") {
			t.Errorf("Import = %v", err)
		}
	})
}

// An import tells how much of the file it has read, and its size.
func TestProgress(t *testing.T) {
	packed := gzipped(t, pack(t, file("f", strings.Repeat("\x00", 40<<20))))
	path := write(t, filepath.Join(t.TempDir(), "x.tar.gz"), packed)
	last := map[string]Progress{}
	if _, err := openStore(t, Options{}).Import(t.Context(), Request{Ref: path}, func(p Progress) {
		if before := last[p.Step]; p.Done < before.Done || p.Of > 0 && p.Done > p.Of {
			t.Errorf("%+v follows %+v", p, before)
		}
		last[p.Step] = p
	}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"read the archive", "unpack"} {
		if p := last[step]; p.Done <= 0 || p.Of != int64(len(packed)) {
			t.Errorf("%s ends with %+v, of a file of %d bytes", step, p, len(packed))
		}
	}
}

func TestTogether(t *testing.T) {
	var items []item
	for i := range 200 {
		items = append(items, file("f"+strings.Repeat("x", i), "text"))
	}
	path := write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, items...))
	s := openStore(t, Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	unpacked := 0
	for range 4 {
		wg.Go(func() {
			_, err := s.Import(context.Background(), Request{Ref: path}, func(p Progress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Step == "write to disk" {
					unpacked++
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if unpacked != 1 {
		t.Errorf("unpacked %d times", unpacked)
	}
}

func TestRemove(t *testing.T) {
	s := openStore(t, Options{})
	img, err := s.Import(context.Background(), Request{Ref: write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, file("f", "x"))), Name: "mine"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var used *InUseError
	if _, err := s.Remove("mine", func(string) ([]string, error) { return []string{"box"}, nil }); !errors.As(err, &used) {
		t.Errorf("Remove of a used image = %v", err)
	}
	none := func(string) ([]string, error) { return nil, nil }
	if _, err := s.Remove("mine", none); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove("mine", none); !errors.Is(err, ErrNotFound) {
		t.Errorf("second Remove = %v", err)
	}
	if _, err := os.Stat(s.folderOf(img.Digest)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

// What a crash leaves in the staging folder is gone with the next opening, and never an image.
func TestLeftovers(t *testing.T) {
	at := t.TempDir()
	write(t, filepath.Join(at, staging, "x", "image", "rootfs", "f"), []byte("half"))
	s, err := Open(at, Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	rest, _ := os.ReadDir(filepath.Join(at, staging))
	if err != nil || len(all) > 0 || len(rest) > 0 {
		t.Errorf("List = %v, %v; staging holds %v", all, err, rest)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := openStore(t, Options{})
	path := write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, file("f", "x")))
	_, err := s.Import(ctx, Request{Ref: path}, func(p Progress) {
		if p.Layer == 1 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Import = %v", err)
	}
	if rest, err := os.ReadDir(s.pathOf(staging)); err != nil || len(rest) > 0 {
		t.Errorf("staging holds %v, %v", rest, err)
	}
}
