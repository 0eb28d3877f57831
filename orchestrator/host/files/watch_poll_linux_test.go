package files

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Where nobody tells of changes they are found by looking.
func TestPoll(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(os.MkdirAll(at("d/sub"), 0o755), os.WriteFile(at("d/old"), []byte("1"), 0o644), os.WriteFile(at("one"), nil, 0o644), os.WriteFile(at("other"), nil, 0o644))
	asker, theirs := net.Pipe()
	defer asker.Close()
	tick, ended := make(chan time.Time), make(chan error, 1)
	go func() {
		defer theirs.Close()
		begun := Subscription{Paths: [][]byte{[]byte(at("d")), []byte(at("none"))}, Recursive: true}
		ended <- pollTree(Kernel{}, scanRequests(theirs), json.NewEncoder(theirs), tick, begun)
	}()
	events := make(chan Event, 100)
	go func() { // until asker is closed
		defer close(events)
		in := json.NewDecoder(asker)
		for {
			var e Event
			if in.Decode(&e) != nil {
				return
			}
			events <- e
		}
	}()
	next := func() string {
		e := <-events
		if e.Type != Changed {
			return string(e.Type)
		}
		return e.Event + " " + strings.TrimPrefix(string(e.Path), dir+"/")
	}
	says := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, next())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	}
	says("error", "subscribed")
	must(json.NewEncoder(asker).Encode(Subscription{Paths: [][]byte{[]byte(at("one"))}}))
	says("subscribed")

	for _, c := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return os.MkdirAll(at("d/new/deep"), 0o755) }, []string{"create d/new", "create d/new/deep"}},
		{func() error { return os.WriteFile(at("d/new/deep/f"), []byte("x"), 0o644) }, []string{"create d/new/deep/f"}},
		{func() error { return os.WriteFile(at("d/old"), []byte("longer"), 0o644) }, []string{"write d/old"}},
		{func() error { return os.Chmod(at("d/sub"), 0o700) }, []string{"chmod d/sub"}},
		{func() error { return os.Rename(at("d/new"), at("d/moved")) }, []string{"create d/moved", "create d/moved/deep", "create d/moved/deep/f", "remove d/new", "remove d/new/deep", "remove d/new/deep/f"}},
		{func() error { return os.WriteFile(at("one"), []byte("x"), 0o644) }, []string{"write one"}},
		{func() error {
			return errors.Join(os.WriteFile(at("other"), []byte("x"), 0o644), os.Remove(at("d/old")))
		}, []string{"remove d/old"}},
		{func() error { return os.Symlink("/", at("d/old")) }, []string{"create d/old"}}, // where it leads is not looked at
		{func() error { return os.RemoveAll(at("d")) }, []string{"remove d", "remove d/moved", "remove d/moved/deep", "remove d/moved/deep/f", "remove d/old", "remove d/sub"}},
	} {
		must(c.do())
		tick <- time.Time{}
		says(c.want...)
	}
	asker.Close()
	must(<-ended)
	if e, more := <-events; more {
		t.Errorf("told %+v as well", e)
	}
}
