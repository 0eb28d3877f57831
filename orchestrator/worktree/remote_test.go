package worktree

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The driver dies after the remote has taken the push and before it has said so. The next try finds it there.
func TestPushCutOffAfterTheUpdate(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"updated", "never"} {
		if err := syscall.Mkfifo(w.path(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.hook("origin.git/hooks/post-receive", "cat >> "+w.path("received")+"; echo yes > "+w.path("updated")+"; cat "+w.path("never"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := w.git.Push(ctx, p); done <- err }()
	if _, err := os.ReadFile(w.path("updated")); err != nil { // waits for the hook
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Push that was cut off = %v, want canceled", err)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != AlreadyThere {
		t.Errorf("Push again = %+v, %v, want already_there", r, err)
	}
	if got := w.received(); len(got) != 1 {
		t.Errorf("the remote saw %q, want one update", got)
	}
}

// Over HTTP with a password that only the user's credential helper knows: it is used, and shown nowhere.
func TestPushOverHTTPWithCredentialHelper(t *testing.T) {
	w := newWorld(t)
	backend := filepath.Join(w.in(".", "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	w.origin()
	w.in("origin.git", "config", "http.receivepack", "true")
	const secret = "s3cret-pass"
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + w.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.path("home")}, Stderr: os.Stderr}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "ada" || pass != secret {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	url := srv.URL + "/origin.git"

	_, err := w.git.Seed(t.Context(), url, SeedOptions{}, w.path("seed.bundle"))
	wantCode(t, err, "repository_unreachable")

	w.in(".", "config", "--global", "credential.helper", "!f() { echo username=ada; echo password="+secret+"; }; f")
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed || r.URL != url {
		t.Fatalf("Push = %+v, %v", r, err)
	}
	if got := w.in("origin.git", "rev-parse", "fix"); got != head {
		t.Errorf("origin has fix at %s, want %s", got, head)
	}
	err = filepath.WalkDir(w.path("scratch"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), secret) {
			t.Errorf("the password lies in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
