package git_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// guises are the forms in which a token could leak.
func guises(token string) []string {
	basic := "x-access-token:" + token
	return []string{
		token, base64.StdEncoding.EncodeToString([]byte(basic)), base64.StdEncoding.EncodeToString([]byte(token)), base64.URLEncoding.EncodeToString([]byte(basic)),
		hex.EncodeToString([]byte(token)), url.QueryEscape(basic),
	}
}

// watcher looks into every process whenever the server is asked something, which is while the skill and its git run.
type watcher struct {
	mu      sync.Mutex // guards what follows
	samples int
	leaks   []string
}

func (w *watcher) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization") // the server's own processes would be shown it
		w.sample()
		next.ServeHTTP(rw, r)
	})
}

func (w *watcher) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, file := range []string{"cmdline", "environ"} {
		names, _ := filepath.Glob("/proc/[0-9]*/" + file)
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil || len(data) == 0 {
				continue // it ended, or is another user's
			}
			w.samples++
			for _, guise := range guises(canary) {
				if bytes.Contains(data, []byte(guise)) {
					w.leaks = append(w.leaks, name+": "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
				}
			}
		}
	}
}

// While clone, fetch and push open a remote by a token, by file or by descriptor, it is in no command line, in no
// environment, and afterwards in no file and in nothing that was said.
func TestTheTokenIsNowhere(t *testing.T) {
	if _, err := os.ReadFile("/proc/self/cmdline"); err != nil {
		t.Skipf("no /proc: %v", err)
	}
	for _, name := range []string{engine.System, engine.Native} {
		for _, by := range []string{"file", "fd"} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				w := &watcher{}
				f := newForge(t, w.wrap)
				b := newBench(t)
				b.engine = name
				b.repo()
				f.publish(b, "repo")
				said := ""
				call := func(skill string, in input) {
					t.Helper()
					credential := input{"ca_file": f.ca}
					var files []*os.File
					if by == "fd" {
						read, write, err := os.Pipe()
						b.ok(err)
						_, err = io.WriteString(write, canary+"\n")
						b.ok(err, write.Close())
						defer read.Close()
						credential["fd"], files = 3, []*os.File{read}
					} else {
						credential["file"] = secret(t, canary)
					}
					in["credential"] = credential
					cmd := b.process(skill, in)
					cmd.Env = append(cmd.Env, "LATTICE_PERMISSIONS=*,git:push")
					cmd.ExtraFiles = files
					var out bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &out
					err := cmd.Run()
					said += out.String()
					var result protocol.Result
					lines := strings.Split(strings.TrimSpace(out.String()), "\n")
					if json.Unmarshal([]byte(lines[len(lines)-1]), &result) != nil || !result.OK {
						t.Fatalf("%s: %v\n%s", skill, err, out.String())
					}
				}
				call("git.clone", input{"url": f.url + "/a.git", "dest": "copy"})
				b.write("copy/new", "1")
				b.must("git.commit", input{"repo": "copy", "all": true, "message": "second"})
				if name == engine.System { // the native engine neither pushes nor fetches
					call("git.push", input{"repo": "copy", "mode": "direct", "branch": "work"})
					call("git.fetch", input{"repo": "copy"})
					call("git.clone", input{"url": f.url + "/a.git", "dest": "again", "depth": 1, "branch": "work"})
					if got := b.git("again", "rev-parse", "HEAD"); got != b.git("copy", "rev-parse", "HEAD") {
						t.Errorf("the pushed branch is at %s", got)
					}
				}
				if w.samples == 0 || len(f.seen()) == 0 {
					t.Error("the token was not used, or nobody looked")
				}
				for _, leak := range w.leaks {
					t.Errorf("the token is in %s", leak)
				}
				for _, guise := range guises(canary) {
					if strings.Contains(said, guise) {
						t.Errorf("the token was said as %s", guise)
					}
				}
				b.hasNone(guises(canary))
			})
		}
	}
}

// hasNone wants none of these texts in any file of the workspace, the runtime's own included, or in its name.
func (b *bench) hasNone(texts []string) {
	b.t.Helper()
	grep := exec.Command("grep", "-r", "-l", "-a", "-F", "-f", "-", b.dir)
	grep.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n") // in its arguments another watcher would find them
	out, err := grep.Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		b.t.Errorf("grep: %v: the token is in %s", err, out)
	}
}
