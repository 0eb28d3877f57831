package host_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// download is a program that gets something from the network, and a site that has it.
type download struct {
	program, site string
	handler       func(*testing.T) http.Handler
	script        string // ends with what was got
}

var downloads = []download{
	{"npm", "registry.example", npmRegistry, `cd /workspace && npm install --registry=http://registry.example/ --fetch-retries=0 --no-audit --no-fund --no-update-notifier tiny && node -p 'require("tiny")'`},
	{"go", "proxy.example", goProxy, `mkdir -p /workspace/m && cd /workspace/m && printf 'module m\n\nrequire example.com/tiny v1.0.0\n' >go.mod &&
		export GOPROXY=http://proxy.example GONOSUMDB='*' GOSUMDB=off GOFLAGS='-mod=mod -modcacherw' GOTOOLCHAIN=local && go mod download example.com/tiny && cat $(go list -m -f '{{.Dir}}' example.com/tiny)/tiny.txt`},
	{"git", "git.example", gitRepository, `cd /workspace && git clone -q http://git.example/tiny.git && cat tiny/tiny.txt`},
}

// TestDownloads has the usual programs get things by an allowed name, which they cannot as long as it is not allowed.
func TestDownloads(t *testing.T) {
	w := newWorld(t, egress.None)
	w.download(t)
}

// TestDownloadsWherePoliciesAreAdvisory does so where nothing holds sprites but the proxy that their environment names, and
// where that is said.
func TestDownloadsWherePoliciesAreAdvisory(t *testing.T) {
	w := openWorld(t, (*host.Host).PretendPlain, egress.None)
	s, err := w.client.Get(t.Context(), "box")
	if err != nil || s.Network.Enforcement != "advisory" || s.Network.Why == "" {
		t.Fatalf("network = %+v, %v, want advisory and why", s.Network, err)
	}
	w.download(t)
}

func (w *world) download(t *testing.T) {
	w.sites = map[string]http.Handler{}
	rules := []string{}
	var wanted []download
	for i, d := range downloads {
		if code, _ := w.sh(t, "command -v "+d.program); code != 0 {
			t.Logf("%s is not installed: what it downloads is not tried", d.program)
			continue
		}
		wanted = append(wanted, d)
		w.sites[d.site] = d.handler(t)
		w.names[d.site] = fmt.Sprintf("93.184.216.%d", 100+i)
		rules = append(rules, fmt.Sprintf(`{"domain":%q,"action":"allow"}`, d.site))
	}
	for _, d := range wanted {
		if code, out := w.sh(t, d.script); code == 0 {
			t.Errorf("%s got something although nothing is allowed: %s", d.program, out)
		}
		if !slices.ContainsFunc(w.denials(), func(one egress.Denial) bool {
			return one.Name == d.site && one.Code == egress.DeniedByRule && one.Reason == "rule * denies it" && one.Count > 0
		}) {
			t.Errorf("%s: no denial of %s in %+v", d.program, d.site, w.denials())
		}
	}
	if dialed := w.reached(); len(dialed) > 0 {
		t.Errorf("%v was connected to before it was allowed", dialed)
	}
	w.policy(204, `{"rules":[`+strings.Join(rules, ",")+`]}`)
	for _, d := range wanted {
		w.sh(t, "rm -rf /workspace/* /workspace/.[a-z]*")
		if code, out := w.sh(t, d.script); code != 0 || !strings.HasSuffix(strings.TrimSpace(out), "it is tiny") {
			t.Errorf("%s = exit %d, %s", d.program, code, out)
		}
	}
}

// sh runs a script in the sprite, wherever that has its workspace.
func (w *world) sh(t *testing.T, script string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	script = strings.ReplaceAll(script, "/workspace", "${LATTICE_WORKSPACE:-/workspace}")
	code, err := w.client.Exec(t.Context(), "box", sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

// npmRegistry has the package tiny.
func npmRegistry(t *testing.T) http.Handler {
	var archive bytes.Buffer
	gz := gzip.NewWriter(&archive)
	files := tar.NewWriter(gz)
	for name, text := range map[string]string{"package/package.json": `{"name":"tiny","version":"1.0.0"}`, "package/index.js": `module.exports = "it is tiny"`} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(files, text)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(archive.Bytes())
	mux := http.NewServeMux()
	mux.HandleFunc("/tiny", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "tiny", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "tiny", "version": "1.0.0",
				"dist": map[string]string{"tarball": "http://registry.example/tiny/-/tiny-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
			}},
		})
	})
	mux.HandleFunc("/tiny/-/tiny-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) })
	return mux
}

// goProxy has the module example.com/tiny.
func goProxy(t *testing.T) http.Handler {
	const mod = "module example.com/tiny\n"
	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": mod, "tiny.txt": "it is tiny\n"} {
		f, err := files.Create("example.com/tiny@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(f, text)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for name, data := range map[string]string{"list": "v1.0.0\n", "v1.0.0.info": `{"Version":"v1.0.0"}`, "v1.0.0.mod": mod, "v1.0.0.zip": archive.String()} {
		mux.HandleFunc("/example.com/tiny/@v/"+name, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, data) })
	}
	return mux
}

// gitRepository has tiny.git, as files.
func gitRepository(t *testing.T) http.Handler {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "tiny.txt"), []byte("it is tiny\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"init", "-q", "."}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "tiny"},
		{"clone", "-q", "--bare", ".", "../tiny.git"}, {"-C", "../tiny.git", "update-server-info"},
	} {
		cmd := exec.Command("git", argv...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", argv, err, out)
		}
	}
	return http.FileServer(http.Dir(dir))
}
