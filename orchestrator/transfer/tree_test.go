package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/cli"
)

// TestHostileTrees copies what a sprite might send in order to write elsewhere: nothing outside of the copy's top changes.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	file := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 4}
	}
	link := func(typ byte, name, target string) *tar.Header {
		return &tar.Header{Typeflag: typ, Name: name, Linkname: target, Mode: 0o777}
	}
	for name, c := range map[string]struct {
		headers []*tar.Header
		refused string // "" when it is copied
	}{
		"a name above":                    {[]*tar.Header{file("../evil")}, "not below"},
		"an absolute name":                {[]*tar.Header{file("/OUT/evil")}, "not below"},
		"through a link":                  {[]*tar.Header{link(tar.TypeSymlink, "l", "OUT"), file("l/evil")}, "escapes"},
		"through a link upward":           {[]*tar.Header{link(tar.TypeSymlink, "l", ".."), file("l/evil")}, "escapes"},
		"onto a link":                     {[]*tar.Header{link(tar.TypeSymlink, "l", "OUT/kept"), file("l")}, ""},
		"a hard link to above":            {[]*tar.Header{link(tar.TypeLink, "l", "../out/kept")}, "not below"},
		"a hard link through a link":      {[]*tar.Header{link(tar.TypeSymlink, "l", "OUT"), link(tar.TypeLink, "h", "l/kept"), file("h")}, "escapes"},
		"a folder in the place of one":    {[]*tar.Header{link(tar.TypeSymlink, "l", "OUT"), {Typeflag: tar.TypeDir, Name: "l", Mode: 0o777}}, "escapes"},
		"a device":                        {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, ""},
		"rights of whoever it belongs to": {[]*tar.Header{{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755, Size: 4}}, ""},
	} {
		dir := t.TempDir()
		out, top := filepath.Join(dir, "out"), filepath.Join(dir, "top")
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, "kept"), []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
		var sent bytes.Buffer
		w := tar.NewWriter(&sent)
		for _, h := range c.headers {
			h := *h
			h.Name, h.Linkname = strings.ReplaceAll(h.Name, "OUT", out), strings.ReplaceAll(h.Linkname, "OUT", out)
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				io.WriteString(w, "evil")
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		j := &copyJob{console: &cli.Console{Err: io.Discard, JSON: true}, progress: cli.NewProgress(&cli.Console{}), from: Place{Sprite: "s", path: "/src"}}
		err := j.writeLocal(t.Context(), top, func(_ context.Context, give func(node) error) error {
			return j.readTar(tar.NewReader(&sent), give)
		})
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if got, err := os.ReadFile(filepath.Join(out, "kept")); err != nil || string(got) != "kept" {
			t.Errorf("%s: the file outside is %q, %v", name, got, err)
		}
		entries, err := os.ReadDir(out)
		if st, statErr := os.Stat(out); err != nil || statErr != nil || len(entries) != 1 || st.Mode().Perm() != 0o755 {
			t.Errorf("%s: outside are %v, %v, %v", name, entries, err, st.Mode())
		}
		if st, err := os.Lstat(filepath.Join(top, "su")); err == nil && st.Mode()&os.ModeSetuid != 0 {
			t.Errorf("%s: %v", name, st.Mode())
		}
	}
}
