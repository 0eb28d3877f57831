package git_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A repository whose files are named as git's own (config, hooks) must not come to lie where git takes them for its own.
func TestWorkTreesStayOutOfDotGit(t *testing.T) {
	b := newBench(t)
	b.repo()
	evil := filepath.Join(b.dir, "evil")
	b.ok(os.Mkdir(evil, 0o755))
	b.git("evil", "init", "-q", "-b", "main")
	b.write("evil/HEAD", "ref: refs/heads/main\n")
	b.write("evil/config", "[core]\n\tfsmonitor = touch pwned\n")
	b.write("evil/objects/x", "")
	b.write("evil/refs/x", "")
	b.git("evil", "add", "-A")
	b.git("evil", "-c", "user.name=E", "-c", "user.email=e@x", "commit", "-q", "-m", "evil")
	b.ok(os.Symlink("repo/.git", filepath.Join(b.dir, "link")), os.Mkdir(filepath.Join(b.dir, "sub"), 0o755))
	for _, dest := range []string{
		".git", "sub/.git", "repo/.git/x", "repo/.git/modules/x", ".GIT", "sub/.git.", "git~1", "sub/.g\u200cit/x", "new/.git", "link/x",
	} {
		for _, engine := range []string{"system", "native"} {
			b.fails("git.clone", input{"url": "evil", "dest": dest, "engine": engine}, 7, "git_internals")
		}
		b.fails("git.worktree", input{"repo": "evil", "action": "add", "dest": dest, "ref": "HEAD"}, 7, "git_internals")
		if _, err := os.Lstat(filepath.Join(b.dir, dest)); err == nil {
			t.Errorf("%s is there", dest)
		}
	}
	b.must("git.clone", input{"url": "evil", "dest": ".github"})
	b.must("git.clone", input{"url": "evil", "dest": "x.git"})
}
