package native

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/native/wire"
)

const remotes = "refs/remotes/origin/"

// Clone fills a folder with a repository.
func (Engine) Clone(ctx context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	if spec.Filter != "" {
		return engine.Cloned{}, engine.Refuse("partial clones")
	}
	if spec.Reference != "" {
		return engine.Cloned{}, engine.Refuse("borrowing objects")
	}
	if (spec.Depth > 0 || spec.SingleBranch) && !spec.From.Bundle {
		return engine.Cloned{}, engine.Refuse("clones of a part of the history (depth, single_branch)")
	}
	from, err := openSource(ctx, spec.From)
	if err != nil {
		return engine.Cloned{}, explainError(err, "clone_failed")
	}
	c := &cloning{spec: spec, from: from, refs: map[string]engine.Ref{}}
	for _, ref := range from.List() {
		c.refs[ref.Name] = ref
	}
	done, err := c.cloneInto(ctx)
	return done, explainError(errors.Join(err, from.Close()), "clone_failed")
}

// cloning is one clone.
type cloning struct {
	spec engine.CloneSpec
	from source
	refs map[string]engine.Ref // of the source
	repo *repo
}

// plan holds the refs that a clone fetches and its checkout.
type plan struct {
	names    []string        // refs of the source to keep
	extra    []plumbing.Hash // what the refs may not reach: a detached HEAD
	branch   string          // short name to check out as, "" for detached
	follows  string          // the source's branch that it follows, short, "" for none
	first    string          // the branch of the source's HEAD, short, where it stays although another is checked out
	commit   plumbing.Hash
	unborn   string // full name of the branch of an empty clone
	refspec  string
	headName string // full name of the branch that the source's HEAD stands for, "" when unknown
}

func (c *cloning) cloneInto(ctx context.Context) (engine.Cloned, error) {
	p, err := c.planFetch()
	if err != nil {
		return engine.Cloned{}, err
	}
	if err := c.initRepository(p); err != nil {
		return engine.Cloned{}, err
	}
	defer c.repo.Close()
	done := engine.Cloned{Branch: p.branch}
	if done.Objects, done.Bytes, err = c.receiveObjects(ctx, p); err != nil {
		return done, err
	}
	if err := c.writeRefs(p); err != nil || p.commit.IsZero() {
		return done, err
	}
	commit, typ, err := c.repo.Peel(p.commit)
	if err != nil && !errors.Is(err, plumbing.ErrObjectNotFound) {
		return done, err
	}
	if err != nil || typ != plumbing.CommitObject {
		return done, c.noRef()
	}
	done.Head = commit.String()
	if err := c.setHead(p, commit); err != nil {
		return done, err
	}
	done.Files, err = c.repo.checkOut(ctx, commit, c.spec.Limits, c.spec.Follow)
	return done, err
}

func (c *cloning) noRef() error {
	return engine.RefNotFound("%s is neither a tag, a branch nor a commit of the remote", c.spec.Ref).
		WithHint("without ref the remote's HEAD is checked out")
}

// idOf returns the object of a ref of the source, zero when there is no such ref.
func (c *cloning) idOf(name string) plumbing.Hash { return plumbing.NewHash(c.refs[name].ID) }

// planFetch selects the refs to fetch and the commit to check out.
func (c *cloning) planFetch() (plan, error) {
	p := plan{refspec: "+refs/heads/*:" + remotes + "*", headName: c.headName()}
	want := cmp.Or(p.headName, c.onlyBranch())
	if c.spec.Branch != "" && c.spec.Ref == "" {
		want = gitdir.Heads + c.spec.Branch
		if c.idOf(want).IsZero() {
			return c.planBundleHead(p)
		}
	}
	for name := range c.refs {
		if strings.HasPrefix(name, gitdir.Heads) || c.spec.Tags && strings.HasPrefix(name, "refs/tags/") {
			p.names = append(p.names, name)
		}
	}
	if c.spec.SingleBranch && want != "" {
		p.refspec = "+" + want + ":" + remotes + shortenRef(want)
	}
	if slices.Contains(p.names, p.headName) && (c.spec.Ref != "" || c.spec.From.Bundle) {
		p.first = shortenRef(p.headName)
	}
	if c.spec.Ref != "" {
		return c.planRef(p)
	}
	if c.idOf(want).IsZero() {
		head := c.idOf(string(plumbing.HEAD))
		if want == "" && !head.IsZero() { // a detached HEAD
			p.commit, p.extra = head, []plumbing.Hash{head}
			return p, nil
		}
		p.unborn = cmp.Or(p.headName, "refs/heads/main")
		p.branch = shortenRef(p.unborn)
		return p, nil
	}
	p.branch, p.follows, p.commit = shortenRef(want), shortenRef(want), c.idOf(want)
	return p, nil
}

// planBundleHead takes the HEAD of a bundle without a branch of the name that is asked for.
func (c *cloning) planBundleHead(p plan) (plan, error) {
	head := c.idOf(string(plumbing.HEAD))
	if !c.spec.From.Bundle || head.IsZero() {
		return p, engine.RefNotFound("the remote has no branch %s", c.spec.Branch).WithHint("without branch the remote's HEAD is checked out")
	}
	for name := range c.refs {
		if strings.HasPrefix(name, gitdir.Heads) {
			p.names = append(p.names, name)
		}
	}
	p.branch, p.commit, p.extra = c.spec.Branch, head, []plumbing.Hash{head}
	return p, nil
}

// planRef checks out a tag, a branch or a commit.
func (c *cloning) planRef(p plan) (plan, error) {
	p.branch = c.spec.Branch
	for _, name := range []string{"refs/tags/" + c.spec.Ref, gitdir.Heads + c.spec.Ref} {
		if found := c.idOf(name); !found.IsZero() {
			p.commit = found
			if !slices.Contains(p.names, name) {
				p.names = append(p.names, name)
			}
			return p, nil
		}
	}
	if !plumbing.IsHash(c.spec.Ref) {
		return p, c.noRef()
	}
	p.commit = plumbing.NewHash(c.spec.Ref)
	return p, nil
}

// headName returns the branch that the source's HEAD stands for: as it tells or, by git's guess, the one at HEAD's
// commit, master first.
func (c *cloning) headName() string {
	head, ok := c.refs[string(plumbing.HEAD)]
	switch {
	case !ok:
		return ""
	case head.Target != "":
		return head.Target
	case c.spec.From.Local && !c.spec.From.Bundle:
		return "" // it would tell
	case c.refs["refs/heads/master"].ID == head.ID:
		return "refs/heads/master"
	}
	first := ""
	for name, ref := range c.refs {
		if strings.HasPrefix(name, gitdir.Heads) && ref.ID == head.ID && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// onlyBranch returns the branch to check out when the branch of HEAD does not exist: the only one, else main or master.
func (c *cloning) onlyBranch() string {
	var all []string
	for name := range c.refs {
		if strings.HasPrefix(name, gitdir.Heads) {
			all = append(all, name)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if slices.Contains(all, name) {
			return name
		}
	}
	return ""
}

// initRepository makes the folder a repository and opens it.
func (c *cloning) initRepository(p plan) error {
	git := filepath.Join(c.spec.Dir, ".git")
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(git, dir), 0o777); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	b.WriteString("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n")
	fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n", quoteValue(c.spec.RemoteURL))
	if !c.spec.Tags {
		b.WriteString("\ttagOpt = --no-tags\n")
	}
	fmt.Fprintf(&b, "\tfetch = %s\n", quoteValue(p.refspec))
	for _, name := range slices.Compact([]string{p.first, p.follows, shortenRef(p.unborn)}) {
		if name != "" {
			fmt.Fprintf(&b, "%s\n\tremote = origin\n\tmerge = %s\n", branchHeader(name), quoteValue(gitdir.Heads+name))
		}
	}
	config, err := gitconfig.Parse(b.Bytes())
	if err != nil {
		return fmt.Errorf("configure the clone: %w", err)
	}
	head := "ref: " + cmp.Or(p.unborn, gitdir.Heads+cmp.Or(p.branch, "main")) + "\n"
	for name, content := range map[string]string{"config": b.String(), "HEAD": head} {
		if err := os.WriteFile(filepath.Join(git, name), []byte(content), 0o666); err != nil {
			return err
		}
	}
	at := engine.Location{Root: c.spec.Root, Name: filepath.Base(c.spec.Dir), Dir: c.spec.Dir, GitDir: git, CommonDir: git}
	c.repo, err = openRepo(at, config)
	return err
}

// receiveObjects fetches the objects of the plan.
func (c *cloning) receiveObjects(ctx context.Context, p plan) (objects, size int64, err error) {
	want := slices.Clone(p.extra)
	for _, name := range p.names {
		want = append(want, c.idOf(name))
	}
	slices.SortFunc(want, func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
	want = slices.Compact(want)
	if len(want) == 0 {
		if !p.commit.IsZero() {
			err = c.noRef()
		}
		return 0, 0, err
	}
	pack, err := c.from.Fetch(ctx, want)
	if err != nil {
		return 0, 0, err
	}
	defer pack.Close()
	if objects, size, err = c.repo.Receive(ctx, pack, c.spec.Limits, c.spec.Follow); err != nil {
		return objects, size, wire.Judge(err)
	}
	return objects, size, nil
}

// writeRefs writes the tracking refs and tags of the clone, all at once, as packed refs.
func (c *cloning) writeRefs(p plan) error {
	type packed struct{ name, line string }
	var list []packed
	for _, name := range p.names {
		to := name
		if branch, ok := strings.CutPrefix(name, gitdir.Heads); ok {
			to = remotes + branch
		}
		if !gitdir.IsRefName(to) {
			return fmt.Errorf("%w: the remote has a ref called %q", gitdir.ErrHostile, name)
		}
		id := c.idOf(name)
		line := id.String() + " " + to + "\n"
		if peeled, _, err := c.repo.Peel(id); err == nil && peeled != id {
			line += "^" + peeled.String() + "\n"
		}
		list = append(list, packed{to, line})
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b packed) int { return cmp.Compare(a.name, b.name) })
	var text strings.Builder
	text.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range list {
		text.WriteString(ref.line)
	}
	if err := c.writeFile("packed-refs", text.String()); err != nil || !slices.Contains(p.names, p.headName) {
		return err
	}
	return c.writeFile(remotes+"HEAD", "ref: "+remotes+shortenRef(p.headName)+"\n")
}

func (c *cloning) writeFile(name, text string) error {
	lock, err := gitdir.Acquire(c.repo.Root, name)
	if err != nil {
		return err
	}
	return lock.Replace([]byte(text))
}

// setHead sets HEAD to the branch or commit of the plan.
func (c *cloning) setHead(p plan, commit plumbing.Hash) error {
	change := gitdir.RefChange{Old: new(plumbing.Hash), By: c.repo.Committer(), Reason: "clone: from " + c.spec.From.URL}
	if p.first != "" && p.first != p.branch {
		change.Name, change.To = gitdir.Heads+p.first, c.idOf(gitdir.Heads+p.first)
		if err := c.repo.UpdateRef(change); err != nil {
			return err
		}
	}
	change.Name, change.To = gitdir.Heads+p.branch, commit
	if p.branch == "" {
		change.Name, change.Old = string(plumbing.HEAD), nil
	}
	return c.repo.UpdateRef(change)
}
