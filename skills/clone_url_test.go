package skills

import (
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// gitServer serves the repositories of a folder outside of any workspace as GitHub does, with git's own smart protocol.
func gitServer(t *testing.T, wrap func(http.Handler) http.Handler) (root, url string) {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skipf("no git: %v", err)
	}
	path := strings.TrimSpace(string(out))
	for _, program := range []string{"git-http-backend", "git-remote-http"} {
		if _, err := os.Stat(filepath.Join(path, program)); err != nil {
			t.Skipf("this git cannot do HTTP: %v", err)
		}
	}
	root = t.TempDir()
	var handler http.Handler = &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
	}
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return root, server.URL
}

// publish puts the repository of a workspace's folder on a server.
func (s *sprite) publish(dir, root, name string) {
	s.t.Helper()
	s.git(dir, "clone", "-q", "--bare", ".", filepath.Join(root, name))
	s.git(dir, "-C", filepath.Join(root, name), "config", "uploadpack.allowAnySHA1InWant", "true")
}

func TestCloneFromASmartServer(t *testing.T) {
	root, url := gitServer(t, nil)
	s := newSprite(t)
	first := s.origin()
	s.git("origin", "tag", "v1")
	s.write("origin/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::touch% "+filepath.Join(s.dir, "pwned")+"\n")
	s.git("origin", "update-index", "--add", "--cacheinfo", "160000,"+first+",x")
	s.git("origin", "add", ".gitmodules")
	s.git("origin", "commit", "-q", "-m", "second")
	second := s.git("origin", "rev-parse", "HEAD")
	s.git("origin", "branch", "other", "v1")
	s.publish("origin", root, "a.git")
	for name, tc := range map[string]struct {
		input, branch, head string
		shallow             bool
	}{
		"all":           {``, "main", second, false},
		"depth":         {`,"depth":1`, "main", second, true},
		"branch":        {`,"branch":"other"`, "other", first, false},
		"tag":           {`,"ref":"v1"`, "", first, false},
		"old and depth": {`,"ref":"` + first + `","depth":1`, "", first, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.on(t)
			dest := "clones/" + strings.ReplaceAll(name, " ", "-")
			input := `{"url":"` + url + `/a.git","dest":"` + dest + `"` + tc.input + `}`
			o := s.call("git.clone", input)
			data := o.data(t)
			if o.exit != 0 || data["branch"] != tc.branch || data["head"] != tc.head || data["shallow"] != tc.shallow || !cmp.Equal(data["remote"], any(map[string]any{"name": "origin", "url": url + "/a.git"})) {
				t.Errorf("git.clone = exit %d, %s", o.exit, o.stdout)
			}
			progress := 0
			for _, e := range o.events {
				if strings.Contains(string(e.Payload), `"kind":"progress"`) {
					progress++
				}
			}
			if progress == 0 {
				t.Error("nothing was told of the progress")
			}
			if again := s.must("git.clone", input); again["already"] != true && name != "old and depth" {
				t.Errorf("git.clone again = %v, want already", again)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(s.dir, "pwned")); err == nil {
		t.Error("a submodule was followed")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "clones/all/x/.git")); err == nil {
		t.Error("a submodule was cloned")
	}
	for name, tc := range map[string]struct {
		input string
		exit  int
		code  string
	}{
		"no such repository": {`{"url":"` + url + `/b.git"`, 3, "not_a_repository"},
		"no such branch":     {`{"url":"` + url + `/a.git","branch":"nope"`, 3, "ref_not_found"},
		"no such commit":     {`{"url":"` + url + `/a.git","ref":"` + strings.Repeat("1", 40) + `"`, 3, "ref_not_found"},
	} {
		if fault := s.fails("git.clone", tc.input+`,"dest":"gone"}`, tc.exit, tc.code); fault.Hint == "" {
			t.Errorf("%s: no hint: %s", name, fault.Message)
		}
	}
	s.leftNothing("gone")
}

// leftNothing wants a failed clone to leave neither its destination nor what was under way.
func (s *sprite) leftNothing(dest string) {
	s.t.Helper()
	if _, err := os.Lstat(filepath.Join(s.dir, dest)); err == nil {
		s.t.Errorf("%s is there", dest)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, workspace.TempDir, "*")); len(left) > 0 {
		s.t.Errorf("left behind: %v", left)
	}
}

func TestCloneNeedsTheNetworkAndThePermission(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + nobody.Addr().String()
	nobody.Close()
	s := newSprite(t)
	s.origin()
	for name, tc := range map[string]struct {
		grants, input string
		exit          int
		code          string
	}{
		"not granted":           {"git:fetch,fs:write", `{"url":"` + refused + `/a"}`, 4, "permission_denied"},
		"ssh not granted":       {"git:fetch,fs:write", `{"url":"git@example.com:a/b"}`, 4, "permission_denied"},
		"nobody there":          {"git:fetch,fs:write,net", `{"url":"` + refused + `/a"}`, 5, "network"},
		"git, nobody there":     {"git:fetch,fs:write,net", `{"url":"git` + strings.TrimPrefix(refused, "http") + `/a"}`, 5, "network"},
		"not encrypted":         {"*", `{"url":"http://example.com/a"}`, 7, "unsafe"},
		"insecure is no pardon": {"*", `{"url":"ext::sh","insecure":true}`, 7, "unsafe"},
		"file outside":          {"*", `{"url":"file:///etc"}`, 7, "unsafe_path"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.on(t)
			s.env.Grants = skill.ParseGrants(tc.grants)
			fault := s.fails("git.clone", tc.input, tc.exit, tc.code)
			if fault.Hint == "" || fault.Retryable != (tc.exit == protocol.ExitNetwork) {
				t.Errorf("%+v", fault)
			}
			s.leftNothing("repo")
		})
	}
	s.env.Grants = skill.ParseGrants("git:fetch,fs:write")
	s.must("git.clone", `{"url":"origin","dest":"a"}`)
	s.must("git.clone", `{"url":"file://`+s.dir+`/origin","dest":"b"}`)
}

// A server that stops in the middle leaves nothing, and trying again may help.
func TestCutOffCloneLeavesNothing(t *testing.T) {
	root, url := gitServer(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
				w = &cutter{ResponseWriter: w, left: 4000}
			}
			h.ServeHTTP(w, r)
		})
	})
	s := newSprite(t)
	s.origin()
	noise, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer noise.Close()
	big, err := io.ReadAll(io.LimitReader(noise, 1<<20)) // does not compress
	if err != nil {
		t.Fatal(err)
	}
	s.write("origin/big", string(big))
	s.git("origin", "add", "-A")
	s.git("origin", "commit", "-q", "-m", "big")
	s.publish("origin", root, "a.git")
	fault := s.fails("git.clone", `{"url":"`+url+`/a.git"}`, protocol.ExitNetwork, "network")
	if !fault.Retryable || fault.Hint == "" {
		t.Errorf("%+v", fault)
	}
	s.leftNothing("repo")
}

// cutter drops the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}
