package files

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conversation watches and returns the asker's end.
type conversation struct {
	*testing.T
	dir  string
	conn net.Conn
	in   *json.Decoder
}

func watchIn(t *testing.T, recursive bool, paths ...string) *conversation {
	t.Helper()
	asker, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Watch(Kernel{}, theirs) }()
	t.Cleanup(func() {
		asker.Close()
		<-ended
	})
	c := &conversation{T: t, conn: asker, in: json.NewDecoder(asker)}
	s := Subscription{Recursive: recursive}
	for _, p := range paths {
		s.Paths = append(s.Paths, []byte(p))
	}
	if err := json.NewEncoder(asker).Encode(s); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *conversation) next() Event {
	c.Helper()
	var e Event
	if err := c.in.Decode(&e); err != nil {
		c.Fatal(err)
	}
	return e
}

// until takes events until one is want, and returns all as "event path".
func (c *conversation) until(want string) (said []string) {
	c.Helper()
	for {
		e := c.next()
		line := e.Event + " " + strings.TrimPrefix(strings.TrimPrefix(string(e.Path), c.dir), "/")
		if e.Type != Changed {
			line = string(e.Type) + " " + e.Text
		}
		said = append(said, line)
		if line == want {
			return said
		}
	}
}

func TestWatch(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("a folder", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "sub/")
		c := watchIn(t, false, dir)
		c.dir = dir
		c.until("subscribed ")
		must(os.WriteFile(dir+"/f", []byte("x"), 0o644), os.WriteFile(dir+"/sub/hidden", nil, 0o644), os.Chmod(dir+"/f", 0o600), os.Rename(dir+"/f", dir+"/g"), os.Remove(dir+"/g"))
		got := strings.Join(c.until("remove g"), ", ")
		if want := "create f, write f, chmod f, rename f, create g, remove g"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		must(os.Remove(dir+"/sub/hidden"), os.Remove(dir+"/sub"), os.Remove(dir))
		c.until("remove ")
	})
	t.Run("a tree that grows", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "sub/")
		c := watchIn(t, true, dir)
		c.dir = dir
		c.until("subscribed ")
		must(os.MkdirAll(dir+"/a/b/c", 0o755), os.WriteFile(dir+"/a/b/c/deep", []byte("x"), 0o644), os.WriteFile(dir+"/sub/f", nil, 0o644))
		said := c.until("create sub/f")
		for _, want := range []string{"create a", "create a/b", "create a/b/c", "create a/b/c/deep"} {
			n := 0
			for _, s := range said {
				if s == want {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%q was told %d times in %q", want, n, said)
			}
		}
		must(os.Rename(dir+"/a", dir+"/moved"), os.WriteFile(dir+"/moved/b/late", nil, 0o644), os.WriteFile(dir+"/end", nil, 0o644))
		said = c.until("create end")
		for _, want := range []string{"rename a", "create moved", "create moved/b/late"} {
			if !strings.Contains(strings.Join(said, "\n")+"\n", want+"\n") {
				t.Errorf("no %q in %q", want, said)
			}
		}
		for _, s := range said {
			if strings.HasSuffix(s, " a/b/late") {
				t.Errorf("told under the old name: %q", s)
			}
		}
	})
	t.Run("a file that is replaced", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "f=old", "other=", "new=new")
		c := watchIn(t, false, dir+"/f")
		c.dir = dir
		c.until("subscribed ")
		must(os.WriteFile(dir+"/other", []byte("x"), 0o644), os.Rename(dir+"/new", dir+"/f"), os.Remove(dir+"/f"))
		if got := strings.Join(c.until("remove f"), ", "); got != "create f, remove f" {
			t.Errorf("told %s", got)
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		dir := t.TempDir()
		c := watchIn(t, true, dir+"/none", dir)
		if e := c.next(); e.Type != Failed || string(e.Path) != dir+"/none" || e.Code == 0 {
			t.Errorf("told %+v", e)
		}
		c.until("subscribed ")
	})
	t.Run("too much", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "a=", "b=")
		c := watchIn(t, false, dir)
		c.until("subscribed ")
		// Nobody listens meanwhile, so the kernel's queue runs over. Only equal events in a row become one.
		for range 20000 {
			must(os.Chmod(dir+"/a", 0o600), os.Chmod(dir+"/b", 0o600))
		}
		for {
			if e := c.next(); e.Type == Failed {
				if !strings.Contains(e.Text, "overflow") {
					t.Errorf("told %+v", e)
				}
				return
			}
		}
	})
}
