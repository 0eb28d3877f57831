package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/mirror"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SeedOptions selects the part of a repository that a sprite gets.
type SeedOptions struct {
	Ref                string // a branch, tag or commit; "" = HEAD
	IncludeUncommitted bool   // a local working tree as it is, ignored files left out
}

// Seeded describes the content of a seed bundle.
type Seeded struct {
	RemoteURL     string `json:"remote_url,omitempty"` // of a local repository: its origin; credentials removed
	Local         bool   `json:"local"`                // a path on this machine
	Path          string `json:"path,omitempty"`       // absolute: the working tree or the bare repository
	Branch        string `json:"branch,omitempty"`     // "" = detached
	Head          string `json:"head"`                 // the commit that a clone of the bundle checks out
	BaseHead      string `json:"base_head"`            // Head, or its parent when Head holds uncommitted changes
	DefaultBranch string `json:"default_branch,omitempty"`
	Bundle        string `json:"bundle"` // path of the file written
	AuthorName    string `json:"author_name,omitempty"`
	AuthorEmail   string `json:"author_email,omitempty"`
	// Dirty says that the working tree has uncommitted changes (untracked files count). They are in the bundle only
	// when Head differs from BaseHead.
	Dirty    bool               `json:"dirty"`
	GoModule bool               `json:"go_module,omitempty"` // Head has a go.mod in its top folder
	Warnings []protocol.Warning `json:"warnings,omitempty"`
	// Policy is the content of PolicyFile in BaseHead, "" if there is none.
	Policy string `json:"policy,omitempty"`
}

// PolicyFile is the path of a repository's policy; see package policy.
const PolicyFile = ".lattice/policy.toml"

// maxPolicy is the largest size of a policy file in bytes.
const maxPolicy = 64 << 10

// Seed reads the repository that spec names (a URL, or a path; relative paths are taken from the process's working
// directory, see Absolute) and writes the history of one ref to the file dst as a bundle; a plain git clone of the
// bundle checks that ref out. The repository is only read. A *lattice.Refusal says that it cannot be seeded: not a
// repository, without commits, shallow without an origin that answers, partial, an unknown ref, an unsafe URL.
func (g *Git) Seed(ctx context.Context, spec string, opt SeedOptions, dst string) (Seeded, error) {
	s, err := g.seedBundle(ctx, spec, opt, dst)
	if err != nil && ctx.Err() == nil && g.mirrors.Doubt(spec, err) {
		s, err = g.seedBundle(ctx, spec, opt, dst)
	}
	if failed, ok := errors.AsType[*remote.Error](err); ok { // nothing is lost yet, so a clear end beats a wait
		return Seeded{}, gitexec.Refuse("repository_unreachable", failed.Hint(), "%s: %s", failed.Doing, failed.Stderr)
	}
	if err != nil && !gitexec.IsRefusal(err) {
		return Seeded{}, fmt.Errorf("seed from %s: %w", remote.StripCredentials(spec), err)
	}
	return s, err
}

func (g *Git) seedBundle(ctx context.Context, spec string, opt SeedOptions, dst string) (Seeded, error) {
	dst, err := filepath.Abs(dst)
	if err != nil {
		return Seeded{}, err
	}
	if strings.HasPrefix(opt.Ref, "-") || gitexec.CleanLine(opt.Ref) != opt.Ref {
		return Seeded{}, gitexec.Refuse("ref_not_found", "give a branch, tag or commit", "%q is not a ref", gitexec.CleanLine(opt.Ref))
	}
	t, err := g.openTarget(ctx, spec, opt.Ref)
	if err != nil {
		return Seeded{}, err
	}
	defer t.release()
	if err := g.checkComplete(ctx, t); err != nil {
		return Seeded{}, err
	}
	s := Seeded{RemoteURL: t.remote, Local: t.local, Path: t.top, Bundle: dst, DefaultBranch: t.head}
	if s.Branch, s.Head, err = g.resolveRef(ctx, t, opt.Ref); err != nil {
		return Seeded{}, err
	}
	s.BaseHead = s.Head
	s.AuthorName, s.AuthorEmail = g.userIdentity(ctx, t)
	if t.local {
		if err := g.describeLocal(ctx, t, &s); err != nil {
			return Seeded{}, err
		}
	}

	scratch, remove, err := g.tempDir("seed")
	if err != nil {
		return Seeded{}, err
	}
	defer remove()
	repo := filepath.Join(scratch, "repo.git")
	if t.shallow {
		full, err := g.withHistory(ctx, t)
		if err != nil {
			return Seeded{}, err
		}
		defer full.release()
		t.shallow, t.more = false, full.objects
	}
	if err := g.borrowObjects(ctx, t, repo); err != nil {
		return Seeded{}, err
	}
	if opt.IncludeUncommitted {
		if s.Head, err = g.snapshotTree(ctx, t, s, scratch, repo, opt); err != nil {
			return Seeded{}, err
		}
	}
	if s.Policy, err = g.readPolicy(ctx, repo, s.BaseHead); err != nil {
		return Seeded{}, err
	}
	if s.Warnings, err = g.seedWarnings(ctx, gitexec.Command{Dir: repo}, s.Head); err != nil {
		return Seeded{}, err
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: repo, Args: []string{"cat-file", "-e", s.Head + ":go.mod"}})
	if err != nil {
		return Seeded{}, err
	}
	s.GoModule = r.Exit == 0
	return s, g.writeBundle(ctx, repo, s)
}

// Base returns the commit that HEAD of a repository names, and the content of PolicyFile in it, "" if there is none.
func (g *Git) Base(ctx context.Context, spec string) (commit, policy string, err error) {
	t, err := g.openTarget(ctx, spec, "")
	if err != nil {
		return "", "", err
	}
	defer t.release()
	if _, commit, err = g.resolveRef(ctx, t, ""); err != nil {
		return "", "", err
	}
	policy, err = g.readPolicy(ctx, t.gitdir, commit)
	return commit, policy, err
}

// BaseFiles lists the files of the commit that HEAD of a repository names.
func (g *Git) BaseFiles(ctx context.Context, spec string) ([]string, error) {
	t, err := g.openTarget(ctx, spec, "")
	if err != nil {
		return nil, err
	}
	defer t.release()
	_, commit, err := g.resolveRef(ctx, t, "")
	if err != nil {
		return nil, err
	}
	r, err := g.proc.MustRun(ctx, gitexec.Command{Dir: t.gitdir, Args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", commit}})
	return strings.FieldsFunc(string(r.Stdout), func(c rune) bool { return c == 0 }), err
}

// readPolicy returns the content of PolicyFile in a commit. A policy that cannot be used is a refusal, never an empty one.
func (g *Git) readPolicy(ctx context.Context, repo, commit string) (string, error) {
	entry, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: []string{"ls-tree", "-l", commit, "--", PolicyFile}})
	if err != nil || len(entry.Stdout) == 0 {
		return "", err
	}
	f := strings.Fields(entry.StdoutText()) // MODE blob ID SIZE PATH
	if len(f) < 4 || f[1] != "blob" || f[0] == "120000" {
		return "", gitexec.Refuse("policy_invalid", "make it a regular file", "%s of the repository is not a file", PolicyFile)
	}
	if size, err := strconv.Atoi(f[3]); err != nil || size > maxPolicy {
		return "", gitexec.Refuse("policy_invalid", "shorten it", "%s of the repository has %s bytes; the limit is %d", PolicyFile, f[3], maxPolicy)
	}
	body, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: []string{"cat-file", "blob", f[2]}})
	return string(body.Stdout), err
}

// writeBundle gives the scratch repository the one branch and packs it.
func (g *Git) writeBundle(ctx context.Context, repo string, s Seeded) error {
	refs := []string{"HEAD"}
	if s.Branch == "" {
		if _, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: []string{"update-ref", "--no-deref", "HEAD", s.Head}}); err != nil {
			return err
		}
	} else {
		ref := "refs/heads/" + s.Branch
		if _, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: []string{"update-ref", ref, s.Head}}); err != nil {
			return err
		}
		if _, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: []string{"symbolic-ref", "HEAD", ref}}); err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	// A git that was killed leaves the file to which it wrote. One leader prepares a run, so that no other git writes there.
	if err := os.Remove(s.Bundle + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := g.proc.MustRun(ctx, gitexec.Command{Dir: repo, Args: append([]string{"bundle", "create", "-q", s.Bundle}, refs...)})
	return err
}

// checkComplete refuses repositories whose history a bundle cannot hold.
func (g *Git) checkComplete(ctx context.Context, t target) error {
	if !t.local {
		return nil
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"config", "--get-regexp", `^(extensions\.partialclone|remote\..*\.promisor)$`}})
	if err != nil {
		return err
	}
	if r.Exit == 0 {
		return gitexec.Refuse("partial_clone", "give its URL, or make a full clone", "%s is a partial clone: objects that a sprite needs are not there", t.remote)
	}
	return nil
}

// resolveRef finds the commit that ref names, and its branch when it is one.
func (g *Git) resolveRef(ctx context.Context, t target, ref string) (branch, head string, err error) {
	dir := t.gitdir
	if t.local {
		dir = t.top
	}
	if ref == "" {
		head, err := g.commitTree(ctx, dir, "HEAD")
		if err != nil {
			return "", "", err
		}
		if head == "" {
			return "", "", gitexec.Refuse("empty_repository", "commit something first, or name a branch with --ref", "%s has no commit on HEAD", t.remote)
		}
		r, err := g.proc.Run(ctx, gitexec.Command{Dir: dir, User: true, Args: []string{"symbolic-ref", "-q", "HEAD"}})
		if err != nil {
			return "", "", err
		}
		return strings.TrimPrefix(r.StdoutText(), "refs/heads/"), head, nil
	}
	name := strings.TrimPrefix(ref, "refs/heads/")
	for _, at := range []string{"refs/heads/" + name, "refs/remotes/origin/" + name} {
		head, err := g.commitTree(ctx, dir, at)
		if err != nil || head != "" {
			return name, head, err
		}
	}
	head, err = g.commitTree(ctx, dir, ref)
	if err == nil && head == "" {
		err = gitexec.Refuse("ref_not_found", "list them with git ls-remote", "%s has no branch, tag or commit %q", t.remote, ref)
	}
	return "", head, err
}

// commitTree returns the id of the commit that rev names, "" when there is none.
func (g *Git) commitTree(ctx context.Context, dir, rev string) (string, error) {
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: dir, User: true, Args: []string{"rev-parse", "--verify", "-q", "--end-of-options", rev + "^{commit}"}})
	if err != nil || r.Exit != 0 {
		return "", err
	}
	// Before 2.43, rev-parse --verify echoes --end-of-options.
	return strings.TrimPrefix(r.StdoutText(), "--end-of-options\n"), nil
}

// userIdentity is who the user's commits are by; empty when they have not said so.
func (g *Git) userIdentity(ctx context.Context, t target) (name, email string) {
	dir := t.gitdir
	if t.local {
		dir = t.top
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: dir, User: true, Args: []string{"-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"}})
	if err != nil || r.Exit != 0 { // a user without identity is not an error: the skill has a default
		return "", ""
	}
	name, rest, ok := strings.Cut(r.StdoutText(), " <")
	email, _, ok2 := strings.Cut(rest, "> ")
	if !ok || !ok2 {
		return "", ""
	}
	return name, email
}

// describeLocal adds the details that are known only of a local repository.
func (g *Git) describeLocal(ctx context.Context, t target, s *Seeded) error {
	s.RemoteURL = ""
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"config", "--get", "remote.origin.url"}})
	if err != nil {
		return err
	}
	if r.Exit == 0 {
		s.RemoteURL = remote.StripCredentials(r.StdoutText())
	}
	r, err = g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"symbolic-ref", "-q", "refs/remotes/origin/HEAD"}})
	if err != nil {
		return err
	}
	s.DefaultBranch = strings.TrimPrefix(r.StdoutText(), "refs/remotes/origin/")
	for _, name := range []string{"main", "master"} {
		if s.DefaultBranch != "" {
			break
		}
		if at, err := g.commitTree(ctx, t.top, "refs/heads/"+name); err != nil {
			return err
		} else if at != "" {
			s.DefaultBranch = name
		}
	}
	if t.bare {
		return nil
	}
	// Submodules are compared by commit only, so that git never runs inside them.
	r, err = g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty"}})
	if err != nil {
		return err
	}
	if r.Exit != 0 {
		return fmt.Errorf("read the state of the working tree: %s", r.Stderr)
	}
	s.Dirty = len(r.Stdout) > 0
	return nil
}

// locateCommit returns a local repository and the commit of ref in it.
func (g *Git) locateCommit(ctx context.Context, spec, ref string) (t target, head string, err error) {
	if t, err = g.locateRepo(ctx, spec); err != nil {
		return t, "", err
	}
	_, head, err = g.resolveRef(ctx, t, ref)
	return t, head, err
}

// Names lists the files of a repository on this machine, of another one none.
func (g *Git) Names(ctx context.Context, spec, ref string) ([]string, error) {
	if remote.IsURL(spec) {
		return nil, nil
	}
	t, head, err := g.locateCommit(ctx, spec, ref)
	if err != nil {
		return nil, err
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", head}})
	if err != nil {
		return nil, err
	}
	if r.Exit != 0 || r.Cut {
		return nil, fmt.Errorf("list the files of the repository: %s", cmp.Or(r.Stderr, "there are too many"))
	}
	return strings.FieldsFunc(string(r.Stdout), func(c rune) bool { return c == 0 }), nil
}

// Missing names the parts of the repository that a run would not get, as far as they are known without network access: of a
// repository on this machine. A repository that cannot be read is for Seed to refuse.
func (g *Git) Missing(ctx context.Context, spec, ref string) ([]protocol.Warning, error) {
	if remote.IsURL(spec) {
		return nil, nil
	}
	t, head, err := g.locateCommit(ctx, spec, ref)
	if err != nil {
		return nil, err
	}
	return g.seedWarnings(ctx, gitexec.Command{Dir: t.top, User: true}, head)
}

// seedWarnings names the parts of the repository that a bundle of head does not carry; in says where and how git reads head.
func (g *Git) seedWarnings(ctx context.Context, in gitexec.Command, head string) ([]protocol.Warning, error) {
	git := func(args ...string) (gitexec.Result, error) {
		in.Args = args
		return g.proc.Run(ctx, in)
	}
	var out []protocol.Warning
	r, err := git("config", "-z", "--blob", head+":.gitmodules", "--get-regexp", `^submodule\..*\.path$`)
	if err != nil {
		return nil, err
	}
	if r.Exit == 0 {
		var paths []string
		for entry := range strings.SplitSeq(string(r.Stdout), "\x00") {
			if _, path, ok := strings.Cut(entry, "\n"); ok {
				paths = append(paths, gitexec.CleanLine(path))
			}
		}
		more := ""
		if n := len(paths) - maxNamed; n > 0 {
			paths, more = paths[:maxNamed], fmt.Sprintf(", and %d more", n)
		}
		out = append(out, protocol.Warning{Code: "submodules", Message: "the repository has submodules, whose folders are empty in the sprite: " + strings.Join(paths, ", ") + more})
	}
	if r, err = git("grep", "-q", "-F", "filter=lfs", head, "--", ":(glob)**/.gitattributes"); err != nil {
		return nil, err
	}
	if r.Exit == 0 {
		out = append(out, protocol.Warning{Code: "lfs", Message: "the repository uses git LFS: in the sprite its large files are pointers, not their content"})
	}
	return out, nil
}

// withHistory finds the whole history of a shallow clone where it was cloned from, with the user's credentials. The caller
// releases what is returned.
func (g *Git) withHistory(ctx context.Context, t target) (target, error) {
	shallow := func(why string) error {
		return gitexec.Refuse("shallow_repository", "run git fetch --unshallow in it, or give its URL", "%s is a shallow clone, and the history that a sprite needs is not there; %s", t.remote, why)
	}
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"config", "--get", "remote.origin.url"}})
	if err != nil {
		return target{}, err
	}
	origin := r.StdoutText()
	if r.Exit != 0 || !remote.IsURL(origin) {
		return target{}, shallow("it has no origin to fetch it from")
	}
	roots, err := g.shallowRoots(ctx, t)
	if err != nil {
		return target{}, err
	}
	secrets, err := g.localCredentials(ctx, t)
	if err != nil {
		return target{}, err
	}
	mirrors := g.mirrors // with the configuration of the clone for its remote, as CI systems leave it there
	mirrors.Remote.Git = g.proc.WithEnv(append(slices.Clone(g.proc.Env), secrets...))
	var full mirror.Mirror
	for i, root := range strings.Fields(string(roots)) {
		if i == maxRoots {
			break // the rest is reached by branches, or found missing when the bundle is made
		}
		if full.Release != nil {
			full.Release()
		}
		if full, err = mirrors.Open(ctx, origin, root); err != nil {
			if failed, ok := errors.AsType[*remote.Error](err); ok {
				return target{}, shallow("its origin does not answer: " + failed.Stderr)
			}
			return target{}, err
		}
	}
	if full.Release == nil {
		return target{}, shallow("its boundary cannot be read")
	}
	return mirrorTarget(origin, full), nil
}

// maxRoots is the number of shallow boundary commits that are fetched by name.
const maxRoots = 8

// localCredentials are the settings of a repository by which git authenticates, as an environment for git elsewhere.
func (g *Git) localCredentials(ctx context.Context, t target) ([]string, error) {
	r, err := g.proc.Run(ctx, gitexec.Command{Dir: t.top, User: true, Args: []string{"config", "--local", "-z", "--get-regexp", `^(http|credential)\.|^url\..*\.insteadof$|^core\.sshcommand$`}})
	if err != nil || r.Exit != 0 {
		return nil, err
	}
	var env []string
	n := 0
	for _, kv := range g.proc.Env { // the user's own come first
		if count, ok := strings.CutPrefix(kv, "GIT_CONFIG_COUNT="); ok {
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("read GIT_CONFIG_COUNT: %w", err)
			}
		}
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(r.Stdout), "\x00"), "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
			n++
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)), nil
}
