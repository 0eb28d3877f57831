package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

type cloneInput struct {
	URL       string `json:"url"`
	Dest      string `json:"dest"`
	Branch    string `json:"branch"`
	Ref       string `json:"ref"`
	Depth     int    `json:"depth"`
	Insecure  bool   `json:"insecure"`
	RemoteURL string `json:"remote_url"`
}

type cloneData struct {
	Dest    string `json:"dest"`
	Branch  string `json:"branch"`
	Head    string `json:"head"`
	Remote  string `json:"remote"`
	Files   int    `json:"files"`
	Shallow bool   `json:"shallow"`
	Already bool   `json:"already"`
}

// Clone is git.clone. The clone grows out of sight and is renamed into place, so that a destination is whole or not
// there, and what a killed clone leaves is swept.
func (f family) Clone(ctx context.Context, c *skill.Call) (skill.Result, error) {
	var in cloneInput
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	src, err := in.check(c)
	if err != nil {
		return skill.Result{}, err
	}
	dest, err := c.Root.Rel(cmp.Or(in.Dest, defaultRepo))
	if err != nil {
		return skill.Result{}, err
	}
	if dest == "." || c.Root.Reserved(dest) {
		return skill.Result{}, skill.Unsafe("reserved_path", "a clone cannot take the place of %s", dest).WithHint("name a folder below the workspace")
	}
	s, err := f.newSystem(ctx, c)
	if err != nil {
		return skill.Result{}, err
	}
	if err := c.Root.MkdirAll(filepath.Dir(dest)); err != nil {
		return skill.Result{}, err
	}
	entries, err := c.Root.List(dest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return skill.Result{}, err
	}
	if len(entries) > 0 {
		return f.already(ctx, c, s, src, in, dest)
	}
	parent, ok := inside(c.Root.Dir(), filepath.Join(c.Root.Dir(), filepath.Dir(dest)))
	if !ok {
		return skill.Result{}, skill.Unsafe("unsafe_path", "%s leads out of the workspace", dest)
	}
	work, release, err := c.Root.Scratch(filepath.Dir(dest))
	if err != nil {
		return skill.Result{}, err
	}
	defer release()
	r := &repo{system: s, root: c.Root, rel: dest, dir: work, gitDir: filepath.Join(work, ".git")}
	if err := r.clone(ctx, c, src, in); err != nil {
		return skill.Result{}, err
	}
	if err := os.Rename(work, filepath.Join(parent, filepath.Base(dest))); err != nil {
		return skill.Result{}, fmt.Errorf("put the clone in place: %w", err)
	}
	r.dir = filepath.Join(parent, filepath.Base(dest))
	r.gitDir = filepath.Join(r.dir, ".git")
	return r.cloned(ctx, c, false)
}

// check judges the input and finds out where the repository comes from.
func (in *cloneInput) check(c *skill.Call) (source, error) {
	if in.Depth < 0 {
		return source{}, skill.BadInput("/depth", "is negative")
	}
	if in.Branch != "" {
		if err := checkRef(in.Branch, "/branch"); err != nil {
			return source{}, err
		}
	}
	if in.Ref != "" && !isCommitID(in.Ref) {
		if err := checkRef(in.Ref, "/ref"); err != nil {
			return source{}, err
		}
	}
	if in.RemoteURL != "" {
		if _, _, err := parseURL(in.RemoteURL, "/remote_url", false); err != nil {
			return source{}, err
		}
	}
	src, remote, err := parseURL(in.URL, "/url", in.Insecure)
	if err != nil {
		return src, err
	}
	if remote {
		return src, c.Require("net")
	}
	return localSource(c, cmp.Or(src.url, in.URL))
}

// localSource is a bundle or a repository in the workspace; nothing else on the machine may be read.
func localSource(c *skill.Call, name string) (source, error) {
	abs, err := c.Root.Abs(name)
	if err != nil {
		return source{}, err
	}
	if _, err := c.Root.Stat(name); err != nil {
		return source{}, err
	}
	real, ok := inside(c.Root.Dir(), abs)
	if !ok {
		return source{}, skill.Unsafe("unsafe_path", "%s leads out of the workspace", name)
	}
	return source{url: real, protocol: "file", local: true}, nil
}

// network is what git needs of the sprite's environment to reach a remote: where the proxy is, and whom to trust. A push
// never sees it, because whoever sets these could read the credential.
func (src source) network(c *skill.Call) (env []string) {
	if src.local {
		return nil
	}
	for _, name := range []string{
		"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
	} {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (r *repo) clone(ctx context.Context, c *skill.Call, src source, in cloneInput) error {
	args := []string{"clone", "--progress", "--no-checkout", "--no-recurse-submodules", "--no-local", "--template="}
	if in.Depth > 0 && !isFile(src.url) {
		args = append(args, "--depth="+strconv.Itoa(in.Depth))
		if in.Branch != "" && in.Ref == "" {
			args = append(args, "--branch="+in.Branch)
		}
	}
	location := src.url
	if src.local && !isFile(src.url) {
		location = "file://" + src.url // depth needs a transport
	}
	args = append(args, "--", location, r.dir)
	_, err := r.run(ctx, command{args: args, allow: src.protocol, env: src.network(c), follow: func(line string) {
		if strings.Contains(line, "%") {
			c.Progress(line, nil)
		}
	}})
	if err != nil {
		return explain(err, "clone_failed")
	}
	if err := r.exclude(); err != nil {
		return err
	}
	if err := r.checkout(ctx, c, src, in); err != nil {
		return err
	}
	_, err = r.git(ctx, "remote", "set-url", "--", "origin", withoutUser(cmp.Or(in.RemoteURL, src.url)))
	return explain(err, "clone_failed")
}

// checkout fills the work tree: ref, else branch, else whatever the remote's HEAD is.
func (r *repo) checkout(ctx context.Context, c *skill.Call, src source, in cloneInput) error {
	start, args := "HEAD", []string{"checkout", "--quiet", "--force"}
	switch remote := "refs/remotes/origin/" + in.Branch; {
	case in.Ref != "":
		found, err := r.fetchRef(ctx, c, src, in)
		if err != nil {
			return err
		}
		start = found
		if in.Branch != "" {
			args = append(args, "--no-track", "-B", in.Branch)
		} else {
			args = append(args, "--detach")
		}
	case in.Branch != "":
		found, err := r.resolve(ctx, remote)
		if err != nil {
			return err
		}
		switch {
		case found != "":
			start, args = remote, append(args, "--track", "-B", in.Branch)
		case isFile(src.url): // a bundle that holds HEAD alone leaves the name to its reader
			args = append(args, "--no-track", "-B", in.Branch)
		default:
			return notFound("ref_not_found", "the remote has no branch %s", in.Branch).WithHint("without branch the remote's HEAD is checked out")
		}
	}
	head, err := r.resolve(ctx, start)
	if err != nil {
		return err
	}
	if head == "" && start == "HEAD" {
		if start, err = r.onlyBranch(ctx); err != nil || start == "" {
			return err // an empty repository has nothing to check out
		}
		args = append(args, "--track", "-B", strings.TrimPrefix(start, "refs/remotes/origin/"))
	}
	_, err = r.git(ctx, append(args, start, "--")...)
	return explain(err, "checkout_failed")
}

// fetchRef returns the commit of ref, fetched if a shallow clone lacks it.
func (r *repo) fetchRef(ctx context.Context, c *skill.Call, src source, in cloneInput) (string, error) {
	for _, name := range []string{in.Ref, "refs/tags/" + in.Ref, "refs/remotes/origin/" + in.Ref} {
		if found, err := r.resolve(ctx, name); err != nil || found != "" {
			return found, err
		}
	}
	if in.Depth > 0 {
		args := []string{"fetch", "--quiet", "--depth=" + strconv.Itoa(in.Depth), "--no-tags", "--", "origin", in.Ref}
		if _, err := r.in(ctx, command{args: args, allow: src.protocol, env: src.network(c)}); err != nil {
			return "", explain(err, "clone_failed")
		}
		return r.resolve(ctx, "FETCH_HEAD")
	}
	return "", notFound("ref_not_found", "%s is neither a tag, a branch nor a commit of the remote", in.Ref).
		WithHint("without ref the remote's HEAD is checked out")
}

// onlyBranch is what to check out when the remote's HEAD names nothing: its one branch, else main or master.
func (r *repo) onlyBranch(ctx context.Context) (string, error) {
	out, err := r.read(ctx, "for-each-ref", "--format=%(refname)", "refs/remotes/origin")
	if err != nil {
		return "", explain(err, "checkout_failed")
	}
	refs := strings.Fields(string(out))
	if len(refs) == 1 {
		return refs[0], nil
	}
	for _, ref := range refs {
		if ref == "refs/remotes/origin/main" || ref == "refs/remotes/origin/master" {
			return ref, nil
		}
	}
	return "", nil
}

// already answers when the destination holds something: fine if it is this very clone.
func (f family) already(ctx context.Context, c *skill.Call, s *system, src source, in cloneInput, dest string) (skill.Result, error) {
	taken := skill.Failed("dest_exists", "%s is not empty and is no clone of what was asked for", dest).
		WithHint("name another dest, or remove that folder")
	r, err := f.open(ctx, c, dest, false)
	if failed := (*skill.Error)(nil); errors.As(err, &failed) && failed.Code == "not_a_repository" {
		return skill.Result{}, taken
	}
	if err != nil {
		return skill.Result{}, err
	}
	origin, err := r.origin(ctx)
	if err != nil {
		return skill.Result{}, err
	}
	head, err := r.resolve(ctx, "HEAD")
	if err != nil {
		return skill.Result{}, err
	}
	branch, err := r.branch(ctx)
	if err != nil {
		return skill.Result{}, explain(err, "clone_failed")
	}
	want := in.Ref
	if !isCommitID(want) {
		if want, err = s.remoteHead(ctx, c, src, cmp.Or(in.Ref, in.Branch)); err != nil {
			return skill.Result{}, err
		}
	}
	if origin != withoutUser(cmp.Or(in.RemoteURL, src.url)) || head != want || in.Branch != "" && branch != in.Branch {
		return skill.Result{}, taken
	}
	return r.cloned(ctx, c, true)
}

// remoteHead asks where a name, HEAD when it is empty, points in the source.
func (s *system) remoteHead(ctx context.Context, c *skill.Call, src source, name string) (string, error) {
	out, err := s.run(ctx, command{args: []string{"ls-remote", "--quiet", "--", src.url}, allow: src.protocol, env: src.network(c)})
	if err != nil {
		return "", explain(err, "clone_failed")
	}
	at := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			at[ref] = id
		}
	}
	if name == "" {
		return at["HEAD"], nil
	}
	found := cmp.Or(at["refs/tags/"+name+"^{}"], at["refs/tags/"+name], at["refs/heads/"+name])
	if found == "" && isFile(src.url) {
		found = at["HEAD"]
	}
	return found, nil
}

// origin is the URL of origin, "" when there is none.
func (r *repo) origin(ctx context.Context) (string, error) {
	text, err := r.setting(ctx, "remote.origin.url")
	return withoutUser(text), err
}

// cloned is the result.
func (r *repo) cloned(ctx context.Context, c *skill.Call, already bool) (skill.Result, error) {
	data := cloneData{Dest: r.rel, Already: already, Shallow: exists(filepath.Join(r.gitDir, "shallow"))}
	var err error
	if data.Head, err = r.resolve(ctx, "HEAD"); err != nil {
		return skill.Result{}, err
	}
	if data.Branch, err = r.branch(ctx); err != nil {
		return skill.Result{}, explain(err, "clone_failed")
	}
	if data.Remote, err = r.origin(ctx); err != nil {
		return skill.Result{}, err
	}
	out, err := r.read(ctx, "ls-files", "-z")
	if err != nil {
		return skill.Result{}, explain(err, "clone_failed")
	}
	data.Files = len(split(out))
	if data.Head == "" {
		return skill.Result{Data: data}, nil
	}
	metadata, err := json.Marshal(map[string]any{"branch": data.Branch, "url": data.Remote})
	if err != nil {
		return skill.Result{}, fmt.Errorf("describe the clone: %w", err)
	}
	return skill.Result{Data: data}, c.Emit(protocol.Artifact{Kind: "commit", Ref: data.Head, Metadata: metadata})
}

// isFile tells a bundle from a repository.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
