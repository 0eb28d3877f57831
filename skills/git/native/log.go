package native

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
)

// Log lists commits as git log does, the youngest first.
func (r *repo) Log(ctx context.Context, spec engine.LogSpec) (engine.Log, error) {
	log := engine.Log{Commits: []engine.Commit{}}
	if len(spec.Paths) > 0 {
		return log, engine.Refuse("the history of some paths")
	}
	err := r.listCommits(ctx, spec, &log)
	return log, explainError(err, "log_failed")
}

func (r *repo) listCommits(ctx context.Context, spec engine.LogSpec, log *engine.Log) error {
	shown, hidden, err := r.logRange(ctx, spec.Revisions)
	if err != nil {
		return err
	}
	names, err := r.namesOfCommits()
	if err != nil {
		return err
	}
	seen := map[plumbing.Hash]bool{}
	var q commitQueue
	push := func(ids []plumbing.Hash) error {
		for _, id := range ids {
			if seen[id] || hidden[id] {
				continue
			}
			c, err := r.ReadCommit(id)
			if err != nil {
				return err
			}
			seen[id] = true
			heap.Push(&q, queuedCommit{c, len(seen)})
		}
		return nil
	}
	if err := push(shown); err != nil {
		return err
	}
	for skip := spec.Skip; len(q) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := heap.Pop(&q).(queuedCommit)
		if !spec.Since.IsZero() && c.Committer.When.Before(spec.Since) {
			continue
		}
		parents := c.ParentHashes
		if spec.FirstParent && len(parents) > 1 {
			parents = parents[:1]
		}
		if err := push(parents); err != nil {
			return err
		}
		switch {
		case !matchesSpec(c.Commit, spec):
		case skip > 0:
			skip--
		case len(log.Commits) == spec.Max:
			log.More = true
			return nil
		default:
			shown := describeCommit(c.Commit, names[c.Hash], spec.Short)
			if spec.Stats {
				stats, err := r.countCommit(ctx, c.Commit)
				if err != nil {
					return err
				}
				shown.Stats = &stats
			}
			log.Commits = append(log.Commits, shown)
		}
	}
	return nil
}

// commitQueue is a heap of commits, the youngest first, those of one second in the order they were found.
type commitQueue []queuedCommit

// queuedCommit is a commit of a queue.
type queuedCommit struct {
	*object.Commit
	order int
}

func (q commitQueue) Len() int      { return len(q) }
func (q commitQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q commitQueue) Less(i, j int) bool {
	if a, b := q[i].Committer.When.Unix(), q[j].Committer.When.Unix(); a != b {
		return a > b
	}
	return q[i].order < q[j].order
}
func (q *commitQueue) Push(x any) { *q = append(*q, x.(queuedCommit)) }
func (q *commitQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// logRange resolves A, ^A and A..B into the commits to begin with and those to leave out. A branch without
// commits begins with none.
func (r *repo) logRange(ctx context.Context, revisions []string) (shown []plumbing.Hash, hidden map[plumbing.Hash]bool, err error) {
	if len(revisions) == 0 {
		_, head, err := r.Head()
		if err != nil || head.IsZero() {
			return nil, nil, err
		}
		return []plumbing.Hash{head}, nil, nil
	}
	var excluded []plumbing.Hash
	resolve := func(revision string, to *[]plumbing.Hash) error {
		revision = cmp.Or(revision, "HEAD")
		id, err := r.ResolveCommit(revision)
		*to = append(*to, id)
		return err
	}
	for _, revision := range revisions {
		from, to, two := strings.Cut(revision, "..")
		switch {
		case strings.Contains(revision, "..."):
			err = engine.Refuse("the log of A...B")
		case strings.HasPrefix(revision, "^"):
			err = resolve(revision[1:], &excluded)
		case two:
			if err = resolve(from, &excluded); err == nil {
				err = resolve(to, &shown)
			}
		default:
			err = resolve(revision, &shown)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	hidden = map[plumbing.Hash]bool{}
	_, err = r.Reach(ctx, excluded, hidden)
	return shown, hidden, err
}

func matchesSpec(c *object.Commit, spec engine.LogSpec) bool {
	has := func(text, part string) bool {
		return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
	}
	return (spec.Until.IsZero() || !c.Committer.When.After(spec.Until)) &&
		has(c.Author.Name+" <"+c.Author.Email+">", spec.Author) && has(c.Message, spec.Grep)
}

func describeCommit(c *object.Commit, names []string, short bool) engine.Commit {
	message := c.Message
	if name := strings.ToLower(string(c.Encoding)); name == "iso-8859-1" || name == "latin1" || name == "latin-1" {
		runes := make([]rune, len(message))
		for i := range len(message) {
			runes[i] = rune(message[i])
		}
		message = string(runes)
	}
	subject, body := splitMessage(message)
	if short {
		body = ""
	}
	return engine.Commit{
		Commit: c.Hash.String(), Tree: c.TreeHash.String(), Parents: gitdir.Hexes(c.ParentHashes), Author: describePerson(c.Author),
		Committer: describePerson(c.Committer), Subject: subject, Body: body, Refs: append([]string{}, names...),
	}
}

func describePerson(s object.Signature) engine.Person {
	p := engine.Person{Name: s.Name, Email: s.Email}
	if !s.When.IsZero() {
		p.Date = s.When.UTC().Format(time.RFC3339)
	}
	return p
}

// splitMessage takes the first paragraph, in one line, off the rest.
func splitMessage(message string) (subject, body string) {
	var first []string
	for message != "" {
		line, rest, _ := strings.Cut(message, "\n")
		line = strings.TrimRight(line, " \t\r\v\f")
		if line == "" && len(first) > 0 {
			break
		}
		if message = rest; line != "" {
			first = append(first, line)
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

// namesOfCommits lists the refs that point to each commit, and HEAD.
func (r *repo) namesOfCommits() (map[plumbing.Hash][]string, error) {
	names := map[plumbing.Hash][]string{}
	refs, err := r.ListRefs("refs/")
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		id := ref.ID
		switch {
		case strings.HasPrefix(ref.Name, "refs/tags/"):
			if id, _, err = r.Peel(id); err != nil {
				continue // a tag of an object that is missing
			}
		case !strings.HasPrefix(ref.Name, gitdir.Heads) && !strings.HasPrefix(ref.Name, "refs/remotes/"):
			continue
		}
		names[id] = append(names[id], ref.Name)
	}
	if _, head, err := r.Head(); err == nil && !head.IsZero() {
		names[head] = append(names[head], string(plumbing.HEAD))
	}
	for _, list := range names {
		slices.Sort(list)
	}
	return names, nil
}
