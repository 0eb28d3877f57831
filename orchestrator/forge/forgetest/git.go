package forgetest

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// serveGit serves clones to everyone who may read, and pushes of accounts that may write.
func (s *model) serveGit(w http.ResponseWriter, r *http.Request) {
	rest := strings.TrimPrefix(r.URL.Path, "/")
	path, service, ok := strings.Cut(rest, ".git/")
	root := "/" + path + ".git"
	if parts := strings.SplitN(rest, "/", 3); !ok && len(parts) == 3 { // as GitHub takes it, too
		path, service, ok = parts[0]+"/"+parts[1], parts[2], true
		root = "/" + path
	}
	s.mu.Lock()
	repo, by := s.findRepo(path), s.caller(r)
	push := strings.Contains(rest, "git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	known, may := ok && repo != nil, false
	if known {
		may = !push && !repo.private
		if by != nil {
			may = repo.roleOf(by).AtLeast(map[bool]forge.Role{true: forge.Write, false: forge.Read}[push])
		}
	}
	s.mu.Unlock()
	switch {
	case !known:
		http.NotFound(w, r)
		return
	case !may && by == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="forgetest"`)
		http.Error(w, "authentication required", http.StatusUnauthorized)
		return
	case !may:
		http.Error(w, "permission denied", http.StatusForbidden)
		return
	}
	programs, err := gitPrograms()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	name := ""
	if by != nil {
		name = by.Login
	}
	backend := cgi.Handler{
		Path: filepath.Join(programs, "git-http-backend"), Root: root,
		Env: []string{"GIT_PROJECT_ROOT=" + repo.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + name, "GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true", "GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*"},
	}
	backend.ServeHTTP(w, r)
	if push && service == "git-receive-pack" {
		s.noticePush(repo, by)
	}
}

// gitPrograms returns the folder of git's own programs.
var gitPrograms = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	return strings.TrimSpace(string(out)), err
})

// Branch returns the commit of a branch, "" if there is none.
func (s *Server) Branch(path, name string) string {
	s.mu.Lock()
	dir := s.mustRepo(path).dir
	s.mu.Unlock()
	return revParse(dir, name)
}

func revParse(dir, branch string) string {
	out, err := exec.Command("git", "-C", dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// defaultBranch returns the branch that HEAD names.
func defaultBranch(dir string) string {
	head, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil {
		return "main"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
}

// Pushed has the server notice what a test changed in the bare repository itself, as a push of a user.
func (s *Server) Pushed(path, login string) {
	s.mu.Lock()
	r, by := s.mustRepo(path), s.mustUser(login)
	s.mu.Unlock()
	s.noticePush(r, by)
}

// AnnouncePush has the server notice a push of a user to a branch, as Pushed does, and deliver it.
func (s *Server) AnnouncePush(path, login, branch, before string) {
	s.Pushed(path, login)
	after := s.Branch(path, branch)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	s.emitBody(r, "push", "", map[string]any{"ref": "refs/heads/" + branch, "before": before, "after": after, "forced": false, "repository": s.repoJSON(r), "sender": s.mustUser(login)})
}

// noticePush moves the heads of pull requests to the present commits of their branches. After a push that is no
// fast-forward GitHub moves the commits of their reviews as well.
func (s *model) noticePush(r *repo, by *user) {
	s.mu.Lock()
	heads := map[string]string{}
	for _, i := range r.items {
		if i.pull != nil && i.open {
			heads[i.pull.head] = i.pull.headSHA
		}
	}
	s.mu.Unlock()
	type move struct {
		to     string
		forced bool
	}
	moves := map[string]move{}
	for branch, was := range heads {
		if now := revParse(r.dir, branch); now != was && now != "" {
			forced := exec.Command("git", "-C", r.dir, "merge-base", "--is-ancestor", was, now).Run() != nil
			moves[branch] = move{now, forced}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range r.items {
		if i.pull == nil || !i.open {
			continue
		}
		m, moved := moves[i.pull.head]
		if !moved || m.to == i.pull.headSHA {
			continue
		}
		i.pull.headSHA, i.updated = m.to, s.advanceClock()
		if m.forced && s.kind == forge.GitHub {
			for _, v := range i.pull.reviews {
				v.commit = m.to
			}
		}
		s.emitAs(r, by, "pull_request", "synchronize", i, nil)
	}
}
