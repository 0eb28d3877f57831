package native

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/objects"
)

// node is a commit in a walk.
type node struct {
	id     id
	when   int64 // committer's seconds
	order  int   // in which it was found
	commit *objects.CommitData
}

// queue holds commits, the youngest first, those of one second in the order they were found.
type queue []node

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].when != q[j].when {
		return q[i].when > q[j].when
	}
	return q[i].order < q[j].order
}
func (q *queue) Push(x any) { *q = append(*q, x.(node)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// flags mark which starting points reach a commit, and what is known of it.
type flags uint32

const (
	left  flags = 1 << iota
	right       // of two histories
	both        // a common ancestor; what it reaches is common, too
)

// paint walks from commits, each with its mark, and marks everything that they reach, until what is left in the queue is
// common to both marks.
type paint struct {
	repo    *repo
	marks   map[id]flags
	queue   queue
	waiting map[id]int // in the queue, and not yet common
	known   map[id]node
	found   int
}

func (r *repo) newPaint() *paint {
	return &paint{repo: r, marks: map[id]flags{}, waiting: map[id]int{}, known: map[id]node{}}
}

func (p *paint) push(commit id, mark flags) error {
	have := p.marks[commit]
	if have|mark == have {
		return nil
	}
	n, ok := p.known[commit]
	if !ok {
		c, err := p.repo.objects.Commit(commit)
		if err != nil {
			return err
		}
		n = node{id: commit, when: c.Committer.When.Unix(), order: p.found, commit: &objects.CommitData{Parents: p.repo.parents(commit, c)}}
		p.found++
		p.known[commit] = n
	}
	p.marks[commit] = have | mark
	if p.marks[commit]&both == 0 {
		p.waiting[commit]++
	} else {
		delete(p.waiting, commit)
	}
	heap.Push(&p.queue, n)
	return nil
}

// run returns the commits that both sides reach first, in the order they were met; some may be ancestors of others.
func (p *paint) run(ctx context.Context) ([]id, error) {
	var common []id
	for len(p.queue) > 0 && len(p.waiting) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		n := heap.Pop(&p.queue).(node)
		if p.waiting[n.id]--; p.waiting[n.id] <= 0 {
			delete(p.waiting, n.id)
		}
		mark := p.marks[n.id]
		if mark&(left|right) == left|right && mark&both == 0 {
			common = append(common, n.id)
			mark |= both
			p.marks[n.id] |= both
			delete(p.waiting, n.id)
		}
		for _, parent := range n.commit.Parents {
			if err := p.push(parent, mark); err != nil {
				return nil, err
			}
		}
	}
	return common, nil
}

// slop is how many commits a walk goes on past the oldest one that matters, because clocks go wrong.
const slop = 64

// settle goes on after run where dates do not rise with history: what is common reaches commits that were taken for one
// side's before it was met.
func (p *paint) settle(ctx context.Context) error {
	oldest := int64(math.MaxInt64)
	for commit, mark := range p.marks {
		if mark&both == 0 {
			oldest = min(oldest, p.known[commit].when)
		}
	}
	for left := slop; len(p.queue) > 0 && left > 0 && oldest < math.MaxInt64; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := heap.Pop(&p.queue).(node)
		if n.when < oldest {
			left--
		}
		for _, parent := range n.commit.Parents {
			if err := p.push(parent, p.marks[n.id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// apart counts the commits that only ours and only theirs reach.
func (r *repo) apart(ctx context.Context, ours, theirs id) (ahead, behind int, err error) {
	if ours == theirs {
		return 0, 0, nil
	}
	p := r.newPaint()
	if err := p.push(ours, left); err != nil {
		return 0, 0, err
	}
	if err := p.push(theirs, right); err != nil {
		return 0, 0, err
	}
	if _, err := p.run(ctx); err != nil {
		return 0, 0, err
	}
	if err := p.settle(ctx); err != nil {
		return 0, 0, err
	}
	for _, mark := range p.marks {
		switch mark & (left | right) {
		case left:
			ahead++
		case right:
			behind++
		}
	}
	return ahead, behind, nil
}

// bases returns the best common ancestors of two commits, the youngest first.
func (r *repo) bases(ctx context.Context, a, b id) ([]id, error) {
	if a == b {
		return []id{a}, nil
	}
	p := r.newPaint()
	if err := p.push(a, left); err != nil {
		return nil, err
	}
	if err := p.push(b, right); err != nil {
		return nil, err
	}
	common, err := p.run(ctx)
	if err != nil {
		return nil, err
	}
	// One that another reaches is not among the best.
	var best []id
	for _, c := range common {
		reached := false
		for _, d := range common {
			if c != d && !reached {
				if reached, err = r.reaches(ctx, d, c); err != nil {
					return nil, err
				}
			}
		}
		if !reached {
			best = append(best, c)
		}
	}
	slices.SortStableFunc(best, func(x, y id) int { return int(sign(p.known[y].when - p.known[x].when)) })
	return best, nil
}

func sign(n int64) int64 {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// reaches reports whether a commit is among the ancestors of another, or the same.
func (r *repo) reaches(ctx context.Context, from, what id) (bool, error) {
	if from == what {
		return true, nil
	}
	seen := map[id]bool{from: true}
	for todo := []id{from}; len(todo) > 0; {
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		commit := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		c, err := r.objects.Commit(commit)
		if err != nil {
			return false, err
		}
		for _, parent := range r.parents(commit, c) {
			if parent == what {
				return true, nil
			}
			if !seen[parent] {
				seen[parent] = true
				todo = append(todo, parent)
			}
		}
	}
	return false, nil
}

// MergeBase finds what two commits have in common.
func (r *repo) MergeBase(ctx context.Context, spec engine.MergeBaseSpec) (engine.MergeBase, error) {
	answer := engine.MergeBase{Bases: []string{}}
	if len(spec.Commits) != 2 {
		return answer, engine.Refuse(engine.Native, "the merge base of more than two commits")
	}
	var commits [2]id
	for i, revision := range spec.Commits {
		c, err := r.commitNamed(revision)
		if err != nil {
			return answer, explain(err, "merge_base_failed")
		}
		commits[i] = c
	}
	best, err := r.bases(ctx, commits[0], commits[1])
	if err != nil {
		return answer, explain(err, "merge_base_failed")
	}
	answer.IsAncestor = slices.Contains(best, commits[0])
	answer.Bases = hexes(best)
	if !spec.All && len(answer.Bases) > 1 {
		answer.Bases = answer.Bases[:1]
	}
	return answer, nil
}

// missing lists the objects that commits need and that whoever has the other commits lacks: the commits between, and of
// their trees what the trees of their borders do not hold. It asks nothing of history that both share.
func (r *repo) missing(ctx context.Context, want, have []id) ([]id, error) {
	commits, borders, err := r.between2(ctx, want, have)
	if err != nil {
		return nil, err
	}
	seen := map[id]bool{}
	for _, b := range borders {
		c, err := r.objects.Commit(b)
		if err != nil {
			return nil, err
		}
		if err := r.mark(c.Tree, seen, nil); err != nil {
			return nil, err
		}
	}
	list := slices.Clone(commits)
	for _, commit := range commits {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		c, err := r.objects.Commit(commit)
		if err != nil {
			return nil, err
		}
		if err := r.mark(c.Tree, seen, &list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// between2 returns the commits that want reaches and have does not, and the commits at the border that have does reach.
func (r *repo) between2(ctx context.Context, want, have []id) (commits, borders []id, err error) {
	p := r.newPaint()
	for _, h := range have {
		if err := p.push(h, right|both); err != nil {
			return nil, nil, err
		}
	}
	for _, w := range want {
		if err := p.push(w, left); err != nil {
			return nil, nil, err
		}
	}
	if _, err := p.run(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.settle(ctx); err != nil {
		return nil, nil, err
	}
	edge := map[id]bool{}
	for commit, mark := range p.marks {
		if mark&(right|both) != 0 {
			continue
		}
		commits = append(commits, commit)
		for _, parent := range p.known[commit].commit.Parents {
			if p.marks[parent]&(right|both) != 0 && !edge[parent] {
				edge[parent] = true
				borders = append(borders, parent)
			}
		}
	}
	slices.SortFunc(commits, func(a, b id) int { return p.known[a].order - p.known[b].order })
	return commits, borders, nil
}

// mark notes a tree and what it holds as seen, and lists what was not.
func (r *repo) mark(tree id, seen map[id]bool, list *[]id) error {
	return r.markAt(tree, 0, seen, list)
}

func (r *repo) markAt(tree id, depth int, seen map[id]bool, list *[]id) error {
	if seen[tree] {
		return nil
	}
	if depth > maxTreeDepth {
		return fmt.Errorf("read tree %s: %w: folders in folders without end", tree, objects.ErrCorrupt)
	}
	seen[tree] = true
	if list != nil {
		*list = append(*list, tree)
	}
	entries, err := r.objects.Tree(tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Mode == objects.ModeTree:
			if err := r.markAt(e.ID, depth+1, seen, list); err != nil {
				return err
			}
		case e.Mode != objects.ModeSubmodule && !seen[e.ID]:
			seen[e.ID] = true
			if list != nil {
				*list = append(*list, e.ID)
			}
		}
	}
	return nil
}
