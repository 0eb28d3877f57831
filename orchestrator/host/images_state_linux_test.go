package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// What a sprite changes of its image's own files is kept, compared, forked and taken back like its other files, with each
// driver, and the image stays as it is for those that come after.
func TestImageFilesAreState(t *testing.T) {
	root := smallRoot(t)
	for _, name := range []string{"srv", "srv/data"} {
		if err := os.Chown(filepath.Join(root, name), 1000, 1000); err != nil && os.Getuid() == 0 {
			t.Fatal(err)
		}
	}
	imageWorlds(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		for _, name := range []string{"s", "other"} {
			if _, err := w.client.Create(ctx, sprites.Create{Name: name, Image: root}); err != nil {
				t.Fatal(err)
			}
		}
		const list = "cd /srv; ls -lR . | while read a b c d e f g h name; do echo $a $e $name; done; cat data moved sub/deep 2>&1 || :"
		seen := map[string]string{}
		step := func(script string) string {
			t.Helper()
			w.do("s", script)
			id := w.checkpoint()
			seen[id] = w.do("s", list)
			return id
		}
		image := step(":")
		moved := step("mv /srv/data /srv/moved; echo new >/srv/new; mkdir /srv/sub; echo deep >/srv/sub/deep")
		back := step("mv /srv/moved /srv/data; echo more >>/srv/data; mv /srv/sub /srv/renamed; mkdir /srv/sub")

		diff := func(from, to string, want map[string]string) {
			t.Helper()
			changes, err := w.client.Diff(ctx, "s", from, to)
			if err != nil {
				t.Errorf("diff %s %s: %v", from, to, err)
			}
			got := map[string]string{}
			for _, c := range changes {
				if c.Type != "directory" && c.OldType != "directory" {
					got[c.Path] = c.Change
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("diff %s %s (-want +got):\n%s", from, to, d)
			}
		}
		diff(image, moved, map[string]string{"/srv/data": "deleted", "/srv/moved": "added", "/srv/new": "added", "/srv/sub/deep": "added"})
		diff(image, back, map[string]string{"/srv/data": "modified", "/srv/new": "added", "/srv/renamed/deep": "added"})
		diff(back, image, map[string]string{"/srv/data": "modified", "/srv/new": "deleted", "/srv/renamed/deep": "deleted"})
		diff(moved, back, map[string]string{"/srv/data": "added", "/srv/moved": "deleted", "/srv/sub/deep": "deleted", "/srv/renamed/deep": "added"})
		diff(back, "", map[string]string{})

		for _, id := range []string{moved, image, back, image} {
			if err := w.client.Restore(ctx, "s", id); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(seen[id], w.do("s", list)); d != "" {
				t.Errorf("restored to %s (-want +got):\n%s", id, d)
			}
		}
		for _, id := range []string{image, moved, back} {
			if v, err := w.client.Verify(ctx, "s", id); err != nil || !v.OK {
				t.Errorf("verify %s: %+v, %v", id, v, err)
			}
			if _, err := w.client.Fork(ctx, "s", id, "fork-"+id); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(seen[id], w.do("fork-"+id, list)); d != "" {
				t.Errorf("forked at %s (-want +got):\n%s", id, d)
			}
		}
		if got := w.do("other", list); got != seen[image] {
			t.Errorf("another sprite of the image has\n%s, want\n%s", got, seen[image])
		}
		if err := w.client.DeleteCheckpoint(ctx, "s", moved); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Restore(ctx, "s", back); err != nil {
			t.Fatal(err)
		}
		if got := w.do("s", list); got != seen[back] {
			t.Errorf("after a checkpoint below it went, %s has\n%s, want\n%s", back, got, seen[back])
		}
		w.check()
	})
}
