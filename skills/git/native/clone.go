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

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/spritekit/skill"
)

const tracking = "refs/remotes/origin/"

// Clone fills a folder with a repository. Whoever calls it puts the folder in place when it is whole.
func (Engine) Clone(ctx context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	if spec.Filter != "" {
		return engine.Cloned{}, engine.Refuse(engine.Native, "partial clones")
	}
	if spec.Reference != "" {
		return engine.Cloned{}, engine.Refuse(engine.Native, "borrowing objects")
	}
	done, err := clone(ctx, spec)
	return done, explain(err, "clone_failed")
}

func clone(ctx context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	from, err := openSource(ctx, spec.From)
	if err != nil {
		return engine.Cloned{}, err
	}
	c := &cloning{spec: spec, from: from, refs: map[string]engine.Ref{}}
	for _, ref := range from.list() {
		c.refs[ref.Name] = ref
	}
	done, err := c.run(ctx)
	return done, errors.Join(err, from.close())
}

// cloning is one clone.
type cloning struct {
	spec engine.CloneSpec
	from source
	refs map[string]engine.Ref // of the source
	repo *repo
}

// plan is what a clone fetches and where it ends.
type plan struct {
	names    []string // refs of the source to keep
	extra    []id     // asked for without a name
	branch   string   // short name to check out as, "" for detached
	follows  string   // the source's branch that it follows, short, "" for none
	first    string   // the branch of the source's HEAD, short, where it stays beside another that is checked out
	commit   id       // to check out; zero for an empty source
	unborn   string   // full name of the branch of an empty clone
	refspec  string
	headName string // full name of the source's branch that its HEAD is, "" when that is not known
}

func (c *cloning) run(ctx context.Context) (engine.Cloned, error) {
	p, err := c.plan()
	if err != nil {
		return engine.Cloned{}, err
	}
	if err := c.init(p); err != nil {
		return engine.Cloned{}, err
	}
	defer c.repo.Close()
	done := engine.Cloned{Branch: p.branch}
	receipt, err := c.receive(ctx, p)
	if err != nil {
		return done, err
	}
	done.Objects, done.Bytes = receipt.Objects, receipt.Bytes
	done.Shallow = len(c.repo.shallow) > 0
	if err := c.name(p); err != nil {
		return done, err
	}
	if p.commit.IsZero() {
		return done, nil
	}
	commit, typ, err := c.repo.objects.Peel(p.commit)
	if errors.Is(err, objects.ErrNotFound) {
		return done, c.noRef()
	}
	if err != nil {
		return done, err
	}
	if typ != objects.Commit {
		return done, c.noRef()
	}
	done.Head = commit.String()
	if err := c.settle(p, commit); err != nil {
		return done, err
	}
	done.Files, err = c.repo.fill(ctx, commit, c.spec.Limits, c.spec.Follow)
	return done, err
}

func (c *cloning) noRef() error {
	return engine.RefNotFound("%s is neither a tag, a branch nor a commit of the remote", c.spec.Ref).
		WithHint("without ref the remote's HEAD is checked out")
}

// idOf is the object of a ref of the source, zero when there is no such ref.
func (c *cloning) idOf(name string) id {
	found, _ := objects.ParseID(c.refs[name].ID)
	return found
}

// plan decides what to fetch and what to check out.
func (c *cloning) plan() (plan, error) {
	p := plan{refspec: "+refs/heads/*:" + tracking + "*", headName: c.headName()}
	want := cmp.Or(p.headName, c.onlyBranch())
	if c.spec.Branch != "" && c.spec.Ref == "" {
		want = heads + c.spec.Branch
		if c.idOf(want).IsZero() {
			return c.planBundleHead(p)
		}
	}
	for name := range c.refs {
		isBranch := strings.HasPrefix(name, heads) && (!c.spec.SingleBranch || c.spec.From.Bundle || name == want)
		if isBranch || c.spec.Tags && strings.HasPrefix(name, "refs/tags/") {
			p.names = append(p.names, name)
		}
	}
	if c.spec.SingleBranch && want != "" {
		p.refspec = "+" + want + ":" + tracking + short(want)
	}
	if at := p.headName; slices.Contains(p.names, at) && (c.spec.Ref != "" || c.spec.From.Bundle) {
		p.first = short(at)
	}
	if c.spec.Ref != "" {
		return c.planRef(p)
	}
	if c.idOf(want).IsZero() {
		head := c.idOf(refs.Head)
		if want == "" && !head.IsZero() { // a detached HEAD
			p.commit, p.extra = head, []id{head}
			return p, nil
		}
		p.unborn = cmp.Or(p.headName, "refs/heads/main")
		p.branch = short(p.unborn)
		return p, nil
	}
	p.branch, p.follows, p.commit = short(want), short(want), c.idOf(want)
	return p, nil
}

// planBundleHead takes the HEAD of a bundle that holds nothing of the branch's name.
func (c *cloning) planBundleHead(p plan) (plan, error) {
	head := c.idOf(refs.Head)
	if !c.spec.From.Bundle || head.IsZero() {
		return p, engine.RefNotFound("the remote has no branch %s", c.spec.Branch).WithHint("without branch the remote's HEAD is checked out")
	}
	for name := range c.refs {
		if strings.HasPrefix(name, heads) {
			p.names = append(p.names, name)
		}
	}
	p.branch, p.commit, p.extra = c.spec.Branch, head, []id{head}
	return p, nil
}

// planRef checks out a tag, a branch or a commit.
func (c *cloning) planRef(p plan) (plan, error) {
	p.branch = c.spec.Branch
	for _, name := range []string{"refs/tags/" + c.spec.Ref, heads + c.spec.Ref} {
		if found := c.idOf(name); !found.IsZero() {
			p.commit = found
			if !slices.Contains(p.names, name) {
				p.names = append(p.names, name)
			}
			return p, nil
		}
	}
	commit, ok := objects.ParseID(c.spec.Ref)
	if !ok {
		return p, c.noRef()
	}
	p.commit = commit
	if c.spec.Depth > 0 && !c.spec.From.Bundle || c.spec.SingleBranch && c.from.anything() {
		p.extra = append(p.extra, commit)
	}
	return p, nil
}

// headName is the branch that the source's HEAD is: as it tells or, by the guess of git, the one that is where HEAD is,
// master first.
func (c *cloning) headName() string {
	head, ok := c.refs[refs.Head]
	switch {
	case !ok:
		return ""
	case head.Target != "":
		return head.Target
	case c.spec.From.Local && !c.spec.From.Bundle:
		return "" // it would tell
	}
	if c.refs["refs/heads/master"].ID == head.ID {
		return "refs/heads/master"
	}
	var same []string
	for name, ref := range c.refs {
		if strings.HasPrefix(name, heads) && ref.ID == head.ID {
			same = append(same, name)
		}
	}
	if len(same) == 0 {
		return ""
	}
	return slices.Min(same)
}

// onlyBranch is what to check out when HEAD names nothing that is there: the one branch, else main or master.
func (c *cloning) onlyBranch() string {
	var all []string
	for name := range c.refs {
		if strings.HasPrefix(name, heads) {
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

// init makes the folder a repository and opens it.
func (c *cloning) init(p plan) error {
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
	for _, follows := range slices.Compact([]string{p.first, p.follows}) {
		if follows != "" {
			b.WriteString(header("branch", follows) + "\n\tremote = origin\n\tmerge = " + quoteValue(heads+follows) + "\n")
		}
	}
	if p.unborn != "" {
		b.WriteString(header("branch", short(p.unborn)) + "\n\tremote = origin\n\tmerge = " + quoteValue(p.unborn) + "\n")
	}
	config, err := gitconfig.Parse(b.Bytes())
	if err != nil {
		return fmt.Errorf("configure the clone: %w", err)
	}
	head := "ref: " + cmp.Or(p.unborn, heads+cmp.Or(p.branch, "main")) + "\n"
	for name, content := range map[string]string{"config": b.String(), "HEAD": head} {
		if err := os.WriteFile(filepath.Join(git, name), []byte(content), 0o666); err != nil {
			return err
		}
	}
	c.repo, err = open(engine.Location{Root: c.spec.Root, Name: filepath.Base(c.spec.Dir), Dir: c.spec.Dir, GitDir: git, CommonDir: git, Config: config})
	return err
}

// quoteValue writes a value as git reads it back.
func quoteValue(text string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text)
	if quoted != text || strings.ContainsAny(text, "#;") || strings.TrimSpace(text) != text {
		return `"` + quoted + `"`
	}
	return text
}

// receive fetches what the plan needs.
func (c *cloning) receive(ctx context.Context, p plan) (objects.Receipt, error) {
	want := slices.Clone(p.extra)
	for _, name := range p.names {
		if at := c.idOf(name); !slices.Contains(want, at) {
			want = append(want, at)
		}
	}
	if len(want) == 0 && !p.commit.IsZero() {
		return objects.Receipt{}, c.noRef()
	}
	if len(want) == 0 {
		return objects.Receipt{}, nil
	}
	slices.SortFunc(want, func(a, b id) int { return bytes.Compare(a[:], b[:]) })
	depth := c.spec.Depth
	if c.spec.From.Bundle {
		depth = 0
	}
	pack, shallow, err := c.from.fetch(ctx, want, depth, nil)
	if err != nil {
		if len(p.extra) > 0 && c.spec.Ref != "" && isCode(err, "clone_failed") {
			return objects.Receipt{}, c.noRef()
		}
		return objects.Receipt{}, err
	}
	defer pack.Close()
	receipt, err := c.repo.objects.Receive(ctx, pack, objects.Intake{
		MaxObjects: c.spec.Limits.MaxObjects, MaxBytes: c.spec.Limits.MaxPackBytes, Check: checkObject, Follow: c.follow,
	})
	if err != nil {
		return receipt, judgeRemote(err)
	}
	return receipt, c.cut(shallow)
}

func isCode(err error, code string) bool {
	var e *skill.Error
	return errors.As(err, &e) && e.Code == code
}

// cut notes the commits whose parents were not fetched.
func (c *cloning) cut(shallow []id) error {
	if len(shallow) == 0 {
		return nil
	}
	lines := hexes(shallow)
	slices.Sort(lines)
	lock, err := refs.Acquire(c.repo.refs.Common(), "shallow")
	if err != nil {
		return err
	}
	if err := lock.Replace([]byte(strings.Join(slices.Compact(lines), "\n") + "\n")); err != nil {
		return err
	}
	return c.repo.readShallow()
}

func (c *cloning) follow(phase string, done, total, size int64) {
	if c.spec.Follow != nil {
		c.spec.Follow(engine.Progress{Phase: phase, Percent: int(done * 100 / max(total, 1)), Objects: done, Total: total, Bytes: size})
	}
}

// name writes the refs of the clone, all at once.
func (c *cloning) name(p plan) error {
	var lines []string
	for _, name := range p.names {
		to := name
		if branch, ok := strings.CutPrefix(name, heads); ok {
			to = tracking + branch
		}
		if !refs.ValidName(to) {
			return fmt.Errorf("%w: the remote has a ref called %q", errHostile, name)
		}
		at := c.idOf(name)
		text := to + " " + at.String() + "\n"
		if peeled, _, err := c.repo.objects.Peel(at); err == nil && peeled != at {
			text += "^" + peeled.String() + "\n"
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	var b strings.Builder
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, text := range lines { // name and id change places: the file has the id first
		first, rest, _ := strings.Cut(text, "\n")
		name, at, _ := strings.Cut(first, " ")
		b.WriteString(at + " " + name + "\n" + rest)
	}
	if len(lines) > 0 {
		lock, err := refs.Acquire(c.repo.refs.Common(), "packed-refs")
		if err != nil {
			return err
		}
		if err := lock.Replace([]byte(b.String())); err != nil {
			return err
		}
	}
	if slices.Contains(p.names, p.headName) {
		return c.repo.refs.SetSymbolic(tracking+"HEAD", tracking+short(p.headName))
	}
	return nil
}

// settle makes HEAD what the plan says.
func (c *cloning) settle(p plan, commit id) error {
	by, why := c.repo.byUs(), "clone: from "+c.spec.From.URL
	if p.first != "" && p.first != p.branch {
		at := c.idOf(heads + p.first)
		if err := c.repo.refs.Update(refs.Change{Name: heads + p.first, New: at, Old: new(id), By: by, Why: why}); err != nil {
			return err
		}
	}
	change := refs.Change{Name: heads + p.branch, New: commit, Old: new(id), By: by, Why: why}
	if p.branch == "" {
		change = refs.Change{Name: refs.Head, New: commit, By: by, Why: why}
	}
	return c.repo.refs.Update(change)
}

// checkObject refuses what git refuses to take in: trees that are out of order, name a file twice, or name one that would
// lead elsewhere; commits without the lines that every commit has.
func checkObject(typ objects.Type, data []byte) error {
	switch typ {
	case objects.Commit:
		c, err := objects.ParseCommit(data)
		if err == nil && (c.Author == objects.Person{} || c.Committer == objects.Person{}) {
			err = fmt.Errorf("%w: a commit without author or committer", objects.ErrCorrupt)
		}
		return err
	case objects.Tree:
		return checkTree(data)
	}
	return nil
}

func checkTree(data []byte) error {
	entries, err := objects.ParseTree(data)
	if err != nil {
		return err
	}
	last := ""
	names := make(map[string]bool, len(entries))
	for i, e := range entries {
		if err := verifyPath(e.Name, e.Mode == objects.ModeSymlink); err != nil {
			return err
		}
		if names[e.Name] {
			return fmt.Errorf("%w: a tree names %q twice", errHostile, e.Name)
		}
		names[e.Name] = true
		if i > 0 && objects.CompareNames(last, entries[i-1].Mode == objects.ModeTree, e.Name, e.Mode == objects.ModeTree) >= 0 {
			return fmt.Errorf("%w: a tree is out of order at %q", errHostile, e.Name)
		}
		last = e.Name
	}
	return nil
}
