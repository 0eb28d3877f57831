package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layerOf makes a layer. An entry is a file whose content is the layer's number, a folder if it ends with /, or with "A -> B" a link.
func layerOf(t *testing.T, number int, entries ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, entry := range entries {
		content := fmt.Sprint(number)
		h := tar.Header{Typeflag: tar.TypeReg, Name: entry, Size: int64(len(content)), Mode: 0o644}
		if name, target, ok := strings.Cut(entry, " -> "); ok {
			content, h = "", tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
		} else if strings.HasSuffix(entry, "/") {
			content, h = "", tar.Header{Typeflag: tar.TypeDir, Name: entry, Mode: 0o755}
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestInventory checks which files of all layers are seen. Whiteouts remove entries of lower layers only, in any order of entries.
func TestInventory(t *testing.T) {
	const a, b, status, release = "usr/share/doc/a/copyright", "usr/share/doc/b/copyright", "var/lib/dpkg/status", "etc/os-release"
	lower := []string{a, b, status, release}
	for _, test := range []struct {
		name string
		top  []string
		want string
	}{
		{"nothing", nil, "a0 b0 release0 status0"},
		{"another content", []string{a}, "a1 b0 release0 status0"},
		{"whiteout of a file", []string{"usr/share/doc/a/.wh.copyright"}, "b0 release0 status0"},
		{"whiteout of a folder", []string{"usr/share/doc/.wh.a"}, "b0 release0 status0"},
		{"whiteout at the top", []string{".wh.usr"}, "release0 status0"},
		{"whiteout before the layer's own file", []string{"usr/share/.wh.doc", a}, "a1 release0 status0"},
		{"whiteout after the layer's own file", []string{a, "usr/share/.wh.doc"}, "a1 release0 status0"},
		{"whiteout of the same name after the file", []string{a, "usr/share/doc/a/.wh.copyright"}, "a1 b0 release0 status0"},
		{"opaque folder", []string{"usr/share/doc/.wh..wh..opq"}, "release0 status0"},
		{"opaque folder after the layer's own file", []string{a, "usr/share/doc/.wh..wh..opq"}, "a1 release0 status0"},
		{"opaque image", []string{release, ".wh..wh..opq"}, "release1"},
		{"whiteout of the name .opq", []string{"usr/share/doc/.wh..opq"}, "a0 b0 release0 status0"},
		{"notes of aufs", []string{"usr/share/doc/.wh..wh.plnk"}, "a0 b0 release0 status0"},
		{"a folder stays", []string{"usr/share/doc/a/"}, "a0 b0 release0 status0"},
		{"a link in place of a folder", []string{"usr/share/doc/a -> b"}, "a0 b0 release0 status0"}, // the file that both share
		{"a link in place of a folder above", []string{"usr/share -> elsewhere"}, "release0 status0"},
		{"a file in place of a folder", []string{"usr/share/doc/a"}, "b0 release0 status0"},
		{"a file in place of a folder, then a folder", []string{"usr/share/doc", "usr/share/doc/", b}, "b1 release0 status0"},
		{"a file, then another in place of its folder", []string{b, "usr/share/doc"}, "release0 status0"},
		{"a link in place of a file", []string{"var/lib/dpkg/status -> other"}, "a0 b0 release0"},
	} {
		var inv inventory
		for i, entries := range [][]string{lower, test.top} {
			if err := inv.scanLayer(layerOf(t, i, entries...)); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
		}
		short := strings.NewReplacer(a, "a", b, "b", status, "status", release, "release")
		var got []string
		for _, name := range slices.Sorted(maps.Keys(inv.files)) {
			got = append(got, short.Replace(name)+string(inv.files[name]))
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestInventoryOfManyFiles checks that not each entry is compared with each file: that takes minutes.
func TestInventoryOfManyFiles(t *testing.T) {
	const files = 100000
	var entries []string
	for i := range files {
		entries = append(entries, fmt.Sprintf("usr/share/doc/p%d/copyright", i))
	}
	var inv inventory
	for i := range 2 {
		if err := inv.scanLayer(layerOf(t, i, entries...)); err != nil || len(inv.files) != files {
			t.Fatalf("layer %d has %d files, %v", i, len(inv.files), err)
		}
	}
}
