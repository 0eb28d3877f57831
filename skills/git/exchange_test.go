package git_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// canary is the token of the tests: it must be nowhere but on its way to the server that it opens.
const canary = "ghp_canary0123456789abcdef"

// forge serves repositories over TLS to those who know the token, as GitHub does.
type forge struct {
	url  string // https://127.0.0.1:port
	root string // of the repositories
	ca   string // file with the server's certificate

	mu   sync.Mutex
	auth []string // the Authorization headers that came
}

// newForge starts a server; wrap may answer before it.
func newForge(t *testing.T, wrap func(http.Handler) http.Handler) *forge {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skipf("no git: %v", err)
	}
	path := strings.TrimSpace(string(out))
	for _, program := range []string{"git-http-backend", "git-remote-https"} {
		if _, err := os.Stat(filepath.Join(path, program)); err != nil {
			t.Skipf("this git cannot do HTTPS: %v", err)
		}
	}
	f := &forge{root: t.TempDir()}
	var backend http.Handler = &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
	}
	if wrap != nil {
		backend = wrap(backend)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.auth = append(f.auth, r.Header.Get("Authorization"))
		f.mu.Unlock()
		if user, token, _ := r.BasicAuth(); user != "x-access-token" || token != canary {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	f.url = server.URL
	f.ca = filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(f.ca, certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

// seen are the Authorization headers that came and were none.
func (f *forge) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.auth), func(h string) bool { return h == "" })
}

// publish puts a repository of the workspace on the server.
func (f *forge) publish(b *bench, dir string) {
	b.t.Helper()
	b.git(dir, "clone", "-q", "--bare", ".", filepath.Join(f.root, "a.git"))
	b.git(dir, "-C", filepath.Join(f.root, "a.git"), "config", "http.receivepack", "true")
}

// secret writes a token to a file that only its owner reads, outside of the workspace.
func secret(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// noCanary wants the token nowhere in the workspace nor in what was said.
func (b *bench) noCanary(said ...string) {
	b.t.Helper()
	for _, text := range said {
		if strings.Contains(text, canary) {
			b.t.Errorf("the token was said: %s", text)
		}
	}
	err := filepath.WalkDir(b.dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if strings.Contains(string(data), canary) {
			b.t.Errorf("the token is in %s", name)
		}
		return err
	})
	b.ok(err)
}

func TestCredentialsOpenARemoteAndStayHidden(t *testing.T) {
	f := newForge(t, nil)
	b := newBench(t)
	b.env.Grants = skill.Grants{All: true}
	head := b.repo()
	f.publish(b, "repo")
	url := f.url + "/a.git"
	if fault := b.fails("git.clone", input{"url": url, "dest": "x", "credential": input{"file": secret(t, "wrong"), "ca_file": f.ca}}, protocol.ExitDenied, "authentication"); strings.Contains(fault.Message, "wrong") {
		t.Errorf("the token is in the message: %s", fault.Message)
	}
	for _, engine := range []string{"system", "native"} {
		b.fails("git.clone", input{"url": url, "dest": "x", "engine": engine}, protocol.ExitUnsafe, "untrusted_host") // nobody trusts the certificate
	}

	file := secret(t, canary)
	cred := input{"file": file, "ca_file": f.ca}
	cloned := b.call("git.clone", input{"url": url, "dest": "copy", "credential": cred})
	if cloned.exit != 0 || cloned.data(t)["head"] != head {
		t.Fatalf("git.clone = %s", cloned.stdout)
	}
	if again := b.must("git.clone", input{"url": url, "dest": "copy", "credential": cred}); again["already"] != true {
		t.Errorf("git.clone again = %v", again)
	}
	b.write("repo/new", "1")
	second := b.commitAll("second")
	b.git("repo", "push", "-q", filepath.Join(f.root, "a.git"), "main")
	fetched := b.call("git.fetch", input{"repo": "copy", "credential": cred})
	if fetched.exit != 0 || at(t, fetched.data(t), "updated", 0, "new") != second || at(t, fetched.data(t), "updated", 0, "old") != head {
		t.Errorf("git.fetch = %s", fetched.stdout)
	}
	b.must("git.checkout", input{"repo": "copy", "ref": "work", "create": true, "start_point": "origin/main"})
	b.write("copy/more", "1")
	b.must("git.commit", input{"repo": "copy", "all": true, "message": "third"})
	once := secret(t, canary)
	pushed := b.call("git.push", input{"repo": "copy", "mode": "direct", "credential": input{"file": once, "once": true, "ca_file": f.ca}})
	if pushed.exit != 0 || at(t, pushed.data(t), "pushed", 0, "status") != "ok" || pushed.data(t)["url"] != url {
		t.Errorf("git.push = %s", pushed.stdout)
	}
	if _, err := os.Lstat(once); err == nil {
		t.Error("a file to be used once is still there")
	}
	if got := b.git("copy", "rev-parse", "refs/remotes/origin/work"); got != b.git("copy", "rev-parse", "HEAD") {
		t.Errorf("the tracking ref is at %s", got)
	}
	b.noCanary(cloned.stdout, cloned.stderr, fetched.stdout, fetched.stderr, pushed.stdout, pushed.stderr)
	if len(f.seen()) == 0 {
		t.Error("nobody showed a token")
	}
}

// A descriptor that the caller opened is read to its end and inherited by nobody; what this process has open itself is
// no credential of anybody's.
func TestCredentialsComeByDescriptor(t *testing.T) {
	f := newForge(t, nil)
	b := newBench(t)
	b.repo()
	f.publish(b, "repo")
	self, err := os.Executable()
	b.ok(err)
	link := filepath.Join(t.TempDir(), "git.clone")
	b.ok(os.Symlink(self, link))
	read, write, err := os.Pipe()
	b.ok(err)
	_, err = io.WriteString(write, canary+"\n")
	b.ok(err, write.Close())
	raw, err := json.Marshal(input{"url": f.url + "/a.git", "dest": "copy", "credential": input{"fd": 3, "ca_file": f.ca}})
	b.ok(err)
	cmd := exec.Command(link)
	cmd.Env = []string{"LATTICE_WORKSPACE=" + b.dir, "LATTICE_SOCKET=", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(string(raw)), []*os.File{read}
	out, err := cmd.CombinedOutput()
	read.Close()
	if err != nil {
		t.Fatalf("git.clone: %v\n%s", err, out)
	}
	b.noCanary(string(out))

	mine, other, err := os.Pipe()
	b.ok(err)
	defer mine.Close()
	defer other.Close()
	for _, fd := range []int{int(mine.Fd()), 1, 9999} {
		o := b.call("git.clone", input{"url": f.url + "/a.git", "dest": "x", "credential": input{"fd": fd}})
		if o.code() != "unsafe_credential" && o.code() != "bad_input" {
			t.Errorf("descriptor %d: %s", fd, o.stdout)
		}
	}
}

func TestCredentialsAreRefused(t *testing.T) {
	b := newBench(t)
	b.repo()
	inside := filepath.Join(b.dir, "token")
	b.write("token", canary)
	b.ok(os.Chmod(inside, 0o600))
	open := secret(t, canary)
	b.ok(os.Chmod(open, 0o644))
	link := filepath.Join(t.TempDir(), "link")
	good := secret(t, canary)
	b.ok(os.Symlink(good, link))
	for name, tc := range map[string]struct {
		url  string
		cred input
		exit int
		code string
	}{
		"in the workspace":     {"https://127.0.0.1:1/a", input{"file": inside}, 7, "unsafe_credential"},
		"open to others":       {"https://127.0.0.1:1/a", input{"file": open}, 7, "unsafe_credential"},
		"a link":               {"https://127.0.0.1:1/a", input{"file": link}, 7, "unsafe_credential"},
		"two lines":            {"https://127.0.0.1:1/a", input{"file": secret(t, "a\nb")}, 7, "unsafe_credential"},
		"empty":                {"https://127.0.0.1:1/a", input{"file": secret(t, "")}, 7, "unsafe_credential"},
		"not encrypted":        {"http://127.0.0.1:1/a", input{"file": good}, 7, "unsafe_credential"},
		"both":                 {"https://127.0.0.1:1/a", input{"file": good, "fd": 3}, 2, "bad_input"},
		"neither":              {"https://127.0.0.1:1/a", input{}, 2, "bad_input"},
		"the token itself":     {"https://127.0.0.1:1/a", input{"token": canary}, 2, "bad_input"},
		"ssh without a host":   {"ssh://git@127.0.0.1:1/a", input{"key_file": good}, 2, "bad_input"},
		"a user with a line":   {"https://127.0.0.1:1/a", input{"file": good, "username": "a\nhost=evil"}, 2, "bad_input"},
		"authority within":     {"https://127.0.0.1:1/a", input{"file": good, "ca_file": filepath.Join(b.dir, "repo/README.md")}, 7, "unsafe_credential"},
		"nobody there, though": {"https://127.0.0.1:1/a", input{"file": good}, 5, "network"},
	} {
		t.Run(name, func(t *testing.T) {
			o := b.call("git.clone", input{"url": tc.url, "dest": "x", "credential": tc.cred})
			if o.exit != tc.exit || o.code() != tc.code {
				t.Errorf("git.clone = exit %d, %s, want %d, %s", o.exit, o.stdout, tc.exit, tc.code)
			}
		})
	}
}

// Whoever the remote sends us to gets no token: not in a clone, which follows, and a push follows nobody.
func TestRedirectsElsewhereGetNoCredential(t *testing.T) {
	elsewhere := newForge(t, nil)
	f := newForge(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.url+r.URL.RequestURI(), http.StatusFound)
		})
	})
	both := filepath.Join(t.TempDir(), "both.pem")
	b := newBench(t)
	b.env.Grants = skill.Grants{All: true}
	b.repo()
	elsewhere.publish(b, "repo")
	var bundle []byte
	for _, file := range []string{f.ca, elsewhere.ca} {
		data, err := os.ReadFile(file)
		b.ok(err)
		bundle = append(bundle, data...)
	}
	b.ok(os.WriteFile(both, bundle, 0o644))
	cred := input{"file": secret(t, canary), "ca_file": both}
	b.fails("git.clone", input{"url": f.url + "/a.git", "dest": "x", "credential": cred}, protocol.ExitDenied, "authentication")
	b.git("repo", "remote", "add", "origin", f.url+"/a.git")
	b.fails("git.fetch", input{"credential": cred}, protocol.ExitDenied, "authentication")
	if o := b.call("git.push", input{"mode": "direct", "branch": "work", "credential": cred}); o.exit == 0 {
		t.Errorf("git.push = %s", o.stdout)
	}
	if seen := elsewhere.seen(); len(seen) > 0 {
		t.Errorf("the other server was shown %q", seen)
	}
	if len(f.seen()) == 0 {
		t.Error("the remote itself was shown no token")
	}
	b.noCanary()
}

// What a repository's configuration would do with a credential, or with where commits go, is refused before anybody is asked.
func TestConfigurationRedirectsNothing(t *testing.T) {
	b := newBench(t)
	b.env.Grants = skill.Grants{All: true}
	b.repo()
	b.git(".", "clone", "-q", "--bare", "repo", "bare.git")
	b.git("repo", "remote", "add", "origin", filepath.Join(b.dir, "bare.git"))
	cred := input{"file": secret(t, canary)}
	for key, always := range map[string]bool{
		"url.https://evil/.insteadOf": true, "http.proxy": false, "http.https://127.0.0.1/.sslVerify": false, "credential.https://x.helper": false, "remote.origin.proxy": false,
	} {
		b.git("repo", "config", key, "x")
		b.fails("git.push", input{"mode": "direct", "branch": "work"}, 7, "unsafe_config")
		b.fails("git.fetch", input{"credential": cred}, 7, "unsafe_config")
		if o := b.call("git.fetch", nil); always != (o.code() == "unsafe_config") {
			t.Errorf("%s: git.fetch without a credential = %s", key, o.stdout)
		}
		b.git("repo", "config", "--unset-all", key)
	}
}
