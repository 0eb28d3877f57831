package native

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
)

// Log lists commits as git log does: the youngest first, with paths along the history that explains them.
func (r *repo) Log(ctx context.Context, spec engine.LogSpec) (engine.Log, error) {
	log := engine.Log{Commits: []engine.Commit{}}
	h, err := r.newHistory(ctx, spec)
	if err == nil && h != nil {
		err = h.collect(&log)
	}
	return log, explain(err, "log_failed")
}

// history is one walk over commits.
type history struct {
	ctx    context.Context
	repo   *repo
	spec   engine.LogSpec
	queue  queue
	seen   map[id]bool
	hidden map[id]bool // excluded by a range
	names  map[id][]string
	attrs  *attributes
}

// newHistory resolves the revisions; nil is the history of a branch without commits.
func (r *repo) newHistory(ctx context.Context, spec engine.LogSpec) (*history, error) {
	h := &history{ctx: ctx, repo: r, spec: spec, seen: map[id]bool{}, hidden: map[id]bool{}}
	var want, have []id
	if len(spec.Revisions) == 0 {
		_, head, err := r.head()
		if err != nil || head.IsZero() {
			return nil, err
		}
		want = []id{head}
	}
	for _, revision := range spec.Revisions {
		w, without, err := r.rangeOf(ctx, revision)
		if err != nil {
			return nil, err
		}
		want, have = append(want, w...), append(have, without...)
	}
	if len(have) > 0 {
		if err := h.hide(want, have); err != nil {
			return nil, err
		}
	}
	for _, w := range want {
		if err := h.push(w); err != nil {
			return nil, err
		}
	}
	var err error
	if h.names, err = r.namesOfCommits(); err != nil {
		return nil, err
	}
	if spec.Stats {
		h.attrs = r.attributes(r.attributesOnDisk)
	}
	return h, nil
}

// attributesOnDisk reads one file of attributes.
func (r *repo) attributesOnDisk(name string) []byte {
	tree, err := openWorktree(r.at.Dir)
	if err != nil {
		return nil
	}
	defer tree.close()
	return tree.small(name)
}

// rangeOf splits A, ^A, A..B and A...B into commits to show and commits to leave out.
func (r *repo) rangeOf(ctx context.Context, revision string) (want, have []id, err error) {
	if text, ok := strings.CutPrefix(revision, "^"); ok {
		c, err := r.commitNamed(text)
		return nil, []id{c}, err
	}
	dots := "..."
	a, b, ok := strings.Cut(revision, dots)
	if !ok {
		dots = ".."
		if a, b, ok = strings.Cut(revision, dots); !ok {
			c, err := r.commitNamed(revision)
			return []id{c}, nil, err
		}
	}
	if a == "" {
		a = refs.Head
	}
	if b == "" {
		b = refs.Head
	}
	from, err := r.commitNamed(a)
	if err != nil {
		return nil, nil, err
	}
	to, err := r.commitNamed(b)
	if err != nil {
		return nil, nil, err
	}
	if dots == ".." {
		return []id{to}, []id{from}, nil
	}
	have, err = r.bases(ctx, from, to)
	return []id{from, to}, have, err
}

// hide finds out what the excluded commits reach.
func (h *history) hide(want, have []id) error {
	p := h.repo.newPaint()
	for _, c := range have {
		if err := p.push(c, right|both); err != nil {
			return err
		}
	}
	for _, c := range want {
		if err := p.push(c, left); err != nil {
			return err
		}
	}
	if _, err := p.run(h.ctx); err != nil {
		return err
	}
	if err := p.settle(h.ctx); err != nil {
		return err
	}
	for c, mark := range p.marks {
		if mark&(right|both) != 0 {
			h.hidden[c] = true
		}
	}
	return nil
}

func (h *history) push(commit id) error {
	if h.seen[commit] || h.hidden[commit] {
		return nil
	}
	c, err := h.repo.objects.Commit(commit)
	if err != nil {
		return err
	}
	heap.Push(&h.queue, node{commit, c.Committer.When.Unix(), len(h.seen), c})
	h.seen[commit] = true
	return nil
}

// collect fills a page.
func (h *history) collect(log *engine.Log) error {
	skip := h.spec.Skip
	for len(h.queue) > 0 {
		if err := h.ctx.Err(); err != nil {
			return context.Cause(h.ctx)
		}
		n := heap.Pop(&h.queue).(node)
		if !h.spec.Since.IsZero() && n.commit.Committer.When.Before(h.spec.Since) {
			continue
		}
		show, err := h.step(n)
		if err != nil {
			return err
		}
		switch {
		case !show || !h.matches(n.commit):
		case skip > 0:
			skip--
		case len(log.Commits) == h.spec.Max:
			log.More = true
			return nil
		default:
			c, err := h.describe(n)
			if err != nil {
				return err
			}
			log.Commits = append(log.Commits, c)
		}
	}
	return nil
}

// step queues the parents to follow and says whether the commit changed one of the paths. A merge that took them as they
// were from one side is explained by that side alone.
func (h *history) step(n node) (bool, error) {
	parents := h.repo.parents(n.id, n.commit)
	if h.spec.FirstParent && len(parents) > 1 {
		parents = parents[:1]
	}
	if len(h.spec.Paths) == 0 {
		return true, h.pushAll(parents)
	}
	if len(parents) == 0 {
		differs, err := h.differs(id{}, n.commit.Tree)
		return differs, err
	}
	relevant, changed, changedElsewhere := 0, false, false
	for _, p := range parents {
		tree, err := h.repo.treeOf(p)
		if err != nil {
			return false, err
		}
		differs, err := h.differs(tree, n.commit.Tree)
		if err != nil {
			return false, err
		}
		if h.hidden[p] {
			changedElsewhere = changedElsewhere || differs
			continue
		}
		if !differs {
			return false, h.push(p)
		}
		relevant, changed = relevant+1, true
	}
	if relevant == 0 {
		changed = changedElsewhere
	}
	return changed, h.pushAll(parents)
}

func (h *history) pushAll(commits []id) error {
	for _, c := range commits {
		if err := h.push(c); err != nil {
			return err
		}
	}
	return nil
}

// differs reports whether two trees differ in one of the paths.
func (h *history) differs(a, b id) (bool, error) {
	if a == b {
		return false, nil
	}
	for _, p := range h.spec.Paths {
		if p == "." {
			return true, nil
		}
		x, err := h.repo.entryAt(a, p)
		if err != nil {
			return false, err
		}
		y, err := h.repo.entryAt(b, p)
		if err != nil || x != y {
			return true, err
		}
	}
	return false, nil
}

// entryAt is what a tree holds at a path, nothing if that is not there.
func (r *repo) entryAt(tree id, path string) (side, error) {
	if tree.IsZero() {
		return side{}, nil
	}
	name, rest, below := strings.Cut(path, "/")
	entries, err := r.objects.Tree(tree)
	if err != nil {
		return side{}, err
	}
	for _, e := range entries {
		switch {
		case e.Name != name:
		case !below:
			return side{e.Mode, e.ID}, nil
		case e.Mode == objects.ModeTree:
			return r.entryAt(e.ID, rest)
		default:
			return side{}, nil
		}
	}
	return side{}, nil
}

// matches judges what does not depend on the tree.
func (h *history) matches(c *objects.CommitData) bool {
	if !h.spec.Until.IsZero() && c.Committer.When.After(h.spec.Until) {
		return false
	}
	has := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	return (h.spec.Author == "" || has(c.Author.Name+" <"+c.Author.Email+">", h.spec.Author)) &&
		(h.spec.Grep == "" || has(c.Message, h.spec.Grep))
}

func (h *history) describe(n node) (engine.Commit, error) {
	c := describe(n.id, n.commit, h.repo.parents(n.id, n.commit))
	c.Refs = append(c.Refs, h.names[n.id]...)
	if h.spec.Short {
		c.Body = ""
	}
	if !h.spec.Stats {
		return c, nil
	}
	first := id{}
	if parents := h.repo.parents(n.id, n.commit); len(parents) > 0 {
		var err error
		if first, err = h.repo.treeOf(parents[0]); err != nil {
			return c, err
		}
	}
	changes, err := h.repo.between(first, n.commit.Tree)
	if err != nil {
		return c, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool { return !under(c.path, h.spec.Paths) })
	stats, err := h.repo.count(changes, h.attrs)
	c.Stats = &stats
	return c, err
}

// describe is a commit as callers see it.
func describe(commit id, c *objects.CommitData, parents []id) engine.Commit {
	message := c.Message
	if latin := strings.ToLower(c.Encoding); latin == "iso-8859-1" || latin == "latin1" || latin == "latin-1" {
		message = fromLatin1(message)
	}
	subject, body := splitMessage(message)
	return engine.Commit{
		Commit: commit.String(), Tree: c.Tree.String(), Parents: hexes(parents),
		Author: personOf(c.Author), Committer: personOf(c.Committer), Subject: subject, Body: body, Refs: []string{},
	}
}

func fromLatin1(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

func personOf(p objects.Person) engine.Person {
	out := engine.Person{Name: p.Name, Email: p.Email}
	if !p.When.IsZero() {
		out.Date = p.When.UTC().Format(time.RFC3339)
	}
	return out
}

// splitMessage takes the first paragraph, in one line, off the rest.
func splitMessage(message string) (subject, body string) {
	var first []string
	for message != "" {
		line, rest, _ := strings.Cut(message, "\n")
		trimmed := strings.TrimRight(line, " \t\r\v\f")
		if trimmed == "" && len(first) > 0 {
			break
		}
		if message = rest; trimmed != "" {
			first = append(first, trimmed)
		}
	}
	for message != "" {
		line, rest, _ := strings.Cut(message, "\n")
		if strings.TrimSpace(line) != "" {
			break
		}
		message = rest
	}
	return strings.Join(first, " "), strings.TrimRight(message, "\n")
}

// namesOfCommits lists the refs that point to each commit.
func (r *repo) namesOfCommits() (map[id][]string, error) {
	names := map[id][]string{}
	for _, prefix := range []string{"refs/heads/", "refs/remotes/", "refs/tags/"} {
		list, err := r.refs.List(prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			at := ref.ID
			if prefix == "refs/tags/" {
				peeled, _, err := r.objects.Peel(at)
				if err != nil {
					continue // a tag of what is not here
				}
				at = peeled
			}
			names[at] = append(names[at], ref.Name)
		}
	}
	if _, head, err := r.head(); err == nil && !head.IsZero() {
		names[head] = append([]string{refs.Head}, names[head]...)
	}
	for _, list := range names {
		slices.Sort(list)
	}
	return names, nil
}
