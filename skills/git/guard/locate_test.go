package guard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// TestFoldersAreThoseOfGit checks that .git and commondir lead to the folder that git uses, with blanks in its name or .. behind a link.
func TestFoldersAreThoseOfGit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ content, want string }{
		{"good\n", "repo/good"}, {"good\r\n", "repo/good"}, {"good", "repo/good"}, {"good \n", "repo/good "}, {" good\n", "repo/ good"},
		{"link/../good\n", "far/good"}, {"../far/good\n", "far/good"},
	} {
		for _, kind := range []string{"gitdir", "commondir"} {
			root, err := workspace.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"repo/good", "repo/good ", "repo/ good", "repo/.own", "far/good", "far/deep"} {
				if err := os.MkdirAll(filepath.Join(root.Dir(), dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root.Dir(), dir, "HEAD"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(filepath.Join(root.Dir(), "far/deep"), filepath.Join(root.Dir(), "repo/link")); err != nil {
				t.Fatal(err)
			}
			file, content := "repo/.git", "gitdir: "+tc.content
			if kind == "commondir" {
				// The folder of the repository is repo itself, so that both kinds of paths begin there.
				file, content = "repo/commondir", tc.content
				if err := os.WriteFile(filepath.Join(root.Dir(), "repo/HEAD"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root.Dir(), "repo/.git"), []byte("gitdir: .\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root.Dir(), file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			at, err := Locate(root, "repo")
			if want := filepath.Join(root.Dir(), tc.want); err != nil || at.CommonDir != want {
				t.Errorf("%s %q = %q, %v; want %q", kind, tc.content, at.CommonDir, err, want)
			}
		}
	}
}
