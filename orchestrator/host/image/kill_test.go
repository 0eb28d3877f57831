package image

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// killEnv makes this test binary a process that works on the store in its first value and kills itself after the step in
// its second: "DIR STEP REF", or "DIR STEP" to remove the only image.
const killEnv = "IMAGE_TEST_KILL"

// TestKilledVictim is that process.
func TestKilledVictim(t *testing.T) {
	words := strings.Fields(os.Getenv(killEnv))
	if len(words) == 0 {
		t.Skip("the victim of TestKilled")
	}
	s, err := Open(words[0], Options{Shift: shift})
	if err != nil {
		t.Fatal(err)
	}
	s.step = func(step string) {
		if strings.ReplaceAll(step, " ", "-") == words[1] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if len(words) == 3 {
		_, err = s.Import(context.Background(), Request{Ref: words[2], Name: "mine"}, nil)
	} else {
		_, err = s.Remove("mine", func(string) ([]string, error) { return nil, nil })
	}
	t.Errorf("it was not killed after %s: %v", words[1], err)
}

// Whenever kill -9 comes, an image is there whole or not at all, what is left of it goes with the next opening, and the
// same import or removal then does its work.
func TestKilled(t *testing.T) {
	text := strings.Repeat("text", 1<<14)
	layer := pack(t, dir("d"), file("d/f", text), link("l", "d"))
	archive := layout(t, "amd64", layer, pack(t, file("d/g", text), file(".wh.l", "")))
	whole := map[string]string{"d": "/", "d/f": text, "d/g": text}
	kill := func(t *testing.T, words ...string) *Store {
		t.Helper()
		words[1] = strings.ReplaceAll(words[1], " ", "-")
		victim := exec.Command(os.Args[0], "-test.run=^TestKilledVictim$")
		victim.Env = append(os.Environ(), killEnv+"="+strings.Join(words, " "))
		out, err := victim.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the victim ended with %v:\n%s", err, out)
		}
		s, err := Open(words[0], Options{Shift: shift})
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := os.ReadDir(s.pathOf(staging)); err != nil || len(rest) > 0 {
			t.Errorf("staging holds %v, %v", rest, err)
		}
		return s
	}
	check := func(t *testing.T, s *Store, there bool) {
		t.Helper()
		all, err := s.List()
		if err != nil || len(all) > 1 || there != (len(all) == 1) {
			t.Fatalf("List = %+v, %v, want an image: %v", all, err, there)
		}
		for _, img := range all {
			if got := contents(t, s.Dir(img.Digest)); len(got) != len(whole) || got["d/f"] != text || got["d/g"] != text {
				t.Errorf("the image holds %d entries, want %d", len(got), len(whole))
			}
		}
	}
	for step, there := range map[string]bool{"begun": false, "layer unpacked": false, "unpacked": false, "recorded": false, "synced": false, "placed": true, "named": true} {
		t.Run("import "+step, func(t *testing.T) {
			s := kill(t, filepath.Join(t.TempDir(), "images"), step, archive)
			check(t, s, there)
			img, err := s.Import(context.Background(), Request{Ref: archive, Name: "mine"}, nil)
			if err != nil || img.Short() != "mine" {
				t.Errorf("Import after it = %+v, %v", img, err)
			}
			check(t, s, true)
		})
	}
	for _, step := range []string{"moved away", "forgotten"} {
		t.Run("remove "+step, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "images")
			s, err := Open(at, Options{Shift: shift})
			if err == nil {
				_, err = s.Import(context.Background(), Request{Ref: archive, Name: "mine"}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			s = kill(t, at, step)
			check(t, s, false)
			if _, err := s.Get("mine"); !errors.Is(err, ErrNotFound) {
				t.Errorf("Get = %v", err)
			}
		})
	}
}
