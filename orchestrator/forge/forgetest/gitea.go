package forgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// GiteaEnv is the variable that names the folder for StartGitea; .ci/run makes it.
const GiteaEnv = "LATTICE_GITEA"

// Gitea is Gitea itself, not a model of it, in a folder of its own.
type Gitea struct {
	URL string
	Dir string

	program string
	user    *syscall.SysProcAttr // Gitea refuses to run as root
	server  *exec.Cmd
	owner   string // a token
}

// StartGitea starts a Gitea with the account acme, which administers it. The folder from has the program gitea-1.26.0, and its folders
// options and templates below static. The caller closes the Gitea.
func StartGitea(ctx context.Context, from string) (*Gitea, error) {
	dir, err := os.MkdirTemp("/tmp", "gitea-")
	if err != nil {
		return nil, err
	}
	g := &Gitea{Dir: dir, program: filepath.Join(from, "gitea-1.26.0")}
	if err := g.start(ctx, filepath.Join(from, "static")); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Gitea) start(ctx context.Context, static string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	g.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
	config := fmt.Sprintf("RUN_MODE = prod\n[server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = %d\nROOT_URL = %s/\nSTATIC_ROOT_PATH = %s\nDISABLE_SSH = true\nOFFLINE_MODE = true\n"+
		"[database]\nDB_TYPE = sqlite3\nPATH = %s/gitea.db\n[security]\nINSTALL_LOCK = true\n[webhook]\nALLOWED_HOST_LIST = loopback\n[log]\nLEVEL = Warn\n", port, g.URL, static, g.Dir)
	file := filepath.Join(g.Dir, "app.ini")
	if err := os.WriteFile(file, []byte(config), 0o666); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		const other = 65534
		g.user = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
		if err := errors.Join(os.Chown(g.Dir, other, other), os.Chown(file, other, other)); err != nil {
			return err
		}
	}
	g.server = g.command(ctx, g.program, "web", "-c", file)
	if err := g.server.Start(); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		if res, err := http.Get(g.URL + "/api/v1/version"); err == nil {
			res.Body.Close()
			break
		}
		if tries == 600 {
			return errors.New("Gitea did not start")
		}
		time.Sleep(100 * time.Millisecond)
	}
	out, err := g.Run(ctx, g.program, "admin", "user", "create", "-c", file, "--username", "acme", "--password", passwordOf("acme"), "--email", "acme@localhost.test",
		"--admin", "--must-change-password=false", "--access-token", "--access-token-scopes", "all")
	for _, word := range strings.Fields(out) {
		if len(word) == 40 {
			g.owner = word
		}
	}
	if err == nil && g.owner == "" {
		err = fmt.Errorf("Gitea printed no token: %q", out)
	}
	return err
}

// Close ends the Gitea and removes its folder.
func (g *Gitea) Close() {
	if g.server != nil && g.server.Process != nil {
		_ = g.server.Process.Kill()
		_ = g.server.Wait()
	}
	os.RemoveAll(g.Dir)
}

// command returns a program that runs as the user of the Gitea.
func (g *Gitea) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = g.Dir, g.user
	cmd.Env = append(cmd.Environ(), "HOME="+g.Dir, "GITEA_WORK_DIR="+g.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@localhost")
	return cmd
}

// Run runs a program as the user of the Gitea and returns its output.
func (g *Gitea) Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := g.command(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w\n%s%s", name, args, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// OwnerToken returns a token of acme.
func (g *Gitea) OwnerToken() string { return g.owner }

func passwordOf(name string) string { return "Secret-" + name + "-1" }

// AddUser adds an account and returns a token of it.
func (g *Gitea) AddUser(ctx context.Context, name string) (token string, err error) {
	owner := func(r *http.Request) { r.Header.Set("Authorization", "token "+g.owner) }
	err = g.post(ctx, "/admin/users", owner, map[string]any{"username": name, "password": passwordOf(name), "email": name + "@localhost.test", "must_change_password": false}, nil)
	if err != nil {
		return "", err
	}
	var made struct{ SHA1 string }
	self := func(r *http.Request) { r.SetBasicAuth(name, passwordOf(name)) }
	err = g.post(ctx, "/users/"+name+"/tokens", self, map[string]any{"name": "test", "scopes": []string{"all"}}, &made)
	return made.SHA1, err
}

// post sends a request to the interface.
func (g *Gitea) post(ctx context.Context, path string, authorize func(*http.Request), in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	authorize(r)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("POST %s: %s", path, res.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}
