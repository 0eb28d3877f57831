package native

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Resolve finds the object that a revision names.
func (r *repo) Resolve(ctx context.Context, revision string) (engine.Object, error) {
	o, err := r.resolve(revision)
	return o, explain(err, "rev_parse_failed")
}

func (r *repo) resolve(revision string) (engine.Object, error) {
	found, err := r.named(revision)
	if err != nil {
		return engine.Object{}, err
	}
	typ, err := r.objects.TypeOf(found.ID)
	if err != nil {
		return engine.Object{}, err
	}
	o := engine.Object{ID: found.ID.String(), Type: typ.String(), Ref: found.Name}
	peeled, typ, err := r.objects.Peel(found.ID)
	if err != nil {
		return engine.Object{}, err
	}
	if typ == objects.Commit {
		o.Commit = peeled.String()
	}
	return o, nil
}

// commitNamed finds a commit, through a tag if need be.
func (r *repo) commitNamed(revision string) (id, error) {
	found, err := r.named(revision)
	if err != nil {
		return id{}, err
	}
	return r.peelTo(found.ID, objects.Commit, revision)
}

func (r *repo) unknown(revision string) error {
	e := skill.NotFound("%s names nothing in %s", revision, r.at.Name)
	e.Code = "ref_not_found"
	return e.WithHint("git.branch and git.log show what there is")
}

// named resolves a revision: a name or id, then any of ^n ~n ^{type} @{n} @{upstream}, then :path. The name of the result
// is set when the revision is that of a ref and nothing more.
func (r *repo) named(revision string) (refs.Ref, error) {
	base, path, hasPath := revision, "", false
	if i := colon(revision); i >= 0 {
		base, path, hasPath = revision[:i], revision[i+1:], true
	}
	end := strings.IndexAny(base, "^~")
	if at := strings.Index(base, "@{"); at >= 0 && (end < 0 || at < end) {
		end = at
	}
	name, rest := base, ""
	if end >= 0 {
		name, rest = base[:end], base[end:]
	}
	if hasPath && base == "" || strings.HasPrefix(rest, "^{/") {
		return refs.Ref{}, engine.Refuse(engine.Native, "revisions such as "+revision)
	}
	at, err := r.base(name, rest != "" && strings.HasPrefix(rest, "@{"))
	if err != nil {
		return at, r.orUnknown(err, revision)
	}
	for first := true; rest != ""; first = false {
		if !first && rest[0] == '@' {
			return at, r.unknown(revision)
		}
		if at, rest, err = r.suffix(at, rest, revision); err != nil {
			return at, r.orUnknown(err, revision)
		}
	}
	if hasPath {
		return r.atPath(at.ID, path, revision)
	}
	return at, nil
}

// colon is where the path of a revision begins, -1 when it has none; braces may hold colons.
func colon(revision string) int {
	depth := 0
	for i := range len(revision) {
		switch revision[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ':':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (r *repo) orUnknown(err error, revision string) error {
	if errors.Is(err, refs.ErrNotFound) || errors.Is(err, objects.ErrNotFound) {
		return r.unknown(revision)
	}
	return err
}

// base resolves a name or an id. A name wins over an abbreviated id, a full id over everything.
func (r *repo) base(name string, bare bool) (refs.Ref, error) {
	if name == "@" || name == "" && bare {
		name = refs.Head
	}
	if full, ok := objects.ParseID(strings.ToLower(name)); ok {
		has, err := r.objects.Has(full)
		if err == nil && !has {
			err = fmt.Errorf("%w: %s", objects.ErrNotFound, name)
		}
		return refs.Ref{ID: full}, err
	}
	for _, full := range []string{name, "refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name, "refs/remotes/" + name + "/HEAD"} {
		if !refs.ValidName(full) {
			continue
		}
		ref, err := r.refs.Resolve(full)
		if err == nil && !ref.ID.IsZero() {
			if !strings.HasPrefix(ref.Name, "refs/") {
				ref.Name = "" // HEAD when it is detached, ORIG_HEAD
			}
			return ref, nil
		}
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return ref, err
		}
	}
	digits := strings.ToLower(name)
	if i := strings.LastIndex(digits, "-g"); i > 0 { // as git describe has it
		digits = digits[i+2:]
	}
	return r.abbreviated(digits, name)
}

// abbreviated resolves the first digits of an id. Among several a single commit is meant, where git would ask for one.
func (r *repo) abbreviated(digits, name string) (refs.Ref, error) {
	ids, err := r.objects.Abbreviated(digits)
	if err != nil {
		return refs.Ref{}, err
	}
	switch len(ids) {
	case 0:
		return refs.Ref{}, fmt.Errorf("%w: %s", refs.ErrNotFound, name)
	case 1:
		return refs.Ref{ID: ids[0]}, nil
	}
	return refs.Ref{}, r.unknown(name + " (which is short for several objects and)")
}

// suffix applies the first of the suffixes.
func (r *repo) suffix(at refs.Ref, rest, revision string) (refs.Ref, string, error) {
	if text, ok := strings.CutPrefix(rest, "@{"); ok {
		word, after, closed := strings.Cut(text, "}")
		if !closed {
			return at, "", r.unknown(revision)
		}
		next, err := r.atSign(at, word, revision)
		return next, after, err
	}
	if text, ok := strings.CutPrefix(rest, "^{"); ok {
		word, after, closed := strings.Cut(text, "}")
		if !closed {
			return at, "", r.unknown(revision)
		}
		next, err := r.peel(at.ID, word, revision)
		return refs.Ref{ID: next}, after, err
	}
	digits := 1
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	n := 1
	if digits > 1 {
		var err error
		if n, err = strconv.Atoi(rest[1:digits]); err != nil {
			return at, "", r.unknown(revision)
		}
	}
	switch rest[0] {
	case '~':
		next, err := r.ancestor(at.ID, n, revision)
		return refs.Ref{ID: next}, rest[digits:], err
	case '^':
		next, err := r.parent(at.ID, n, revision)
		return refs.Ref{ID: next}, rest[digits:], err
	}
	return at, "", r.unknown(revision)
}

func (r *repo) peelTo(from id, want objects.Type, revision string) (id, error) {
	peeled, typ, err := r.objects.Peel(from)
	if err != nil {
		return id{}, err
	}
	if typ == objects.Commit && want == objects.Tree {
		return r.treeOf(peeled)
	}
	if typ != want {
		return id{}, r.unknown(revision + " (as a " + want.String() + ")")
	}
	return peeled, nil
}

// peel is ^{word}.
func (r *repo) peel(from id, word, revision string) (id, error) {
	switch word {
	case "":
		peeled, _, err := r.objects.Peel(from)
		return peeled, err
	case "object":
		return from, nil
	case "commit":
		return r.peelTo(from, objects.Commit, revision)
	case "tree":
		return r.peelTo(from, objects.Tree, revision)
	case "blob":
		return r.peelTo(from, objects.Blob, revision)
	case "tag":
		typ, err := r.objects.TypeOf(from)
		if err == nil && typ != objects.Tag {
			err = r.unknown(revision)
		}
		return from, err
	}
	return id{}, r.unknown(revision)
}

func (r *repo) parent(from id, n int, revision string) (id, error) {
	commit, err := r.peelTo(from, objects.Commit, revision)
	if err != nil || n == 0 {
		return commit, err
	}
	c, err := r.objects.Commit(commit)
	if err != nil {
		return id{}, err
	}
	parents := r.parents(commit, c)
	if n > len(parents) {
		return id{}, r.unknown(revision)
	}
	return parents[n-1], nil
}

func (r *repo) ancestor(from id, n int, revision string) (id, error) {
	commit, err := r.peelTo(from, objects.Commit, revision)
	for ; n > 0 && err == nil; n-- {
		commit, err = r.parent(commit, 1, revision)
	}
	return commit, err
}

// atSign is @{word}: a number is an entry of the log, upstream what the branch follows.
func (r *repo) atSign(at refs.Ref, word, revision string) (refs.Ref, error) {
	switch strings.ToLower(word) {
	case "u", "upstream":
		branch := at.Name
		if branch == "" {
			return at, r.unknown(revision)
		}
		upstream := r.upstream(branch)
		if upstream == "" {
			return at, r.unknown(revision)
		}
		ref, err := r.refs.Resolve(upstream)
		if err == nil && ref.ID.IsZero() {
			err = r.unknown(revision)
		}
		return ref, err
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		return at, engine.Refuse(engine.Native, "revisions such as "+revision)
	}
	name := at.Name
	if strings.HasPrefix(revision, "HEAD@") || strings.HasPrefix(revision, "@@") || name == "" {
		name = refs.Head
	}
	entries, err := r.refs.LogEntries(name)
	if err != nil {
		return at, err
	}
	if n == 0 {
		return refs.Ref{ID: at.ID}, nil
	}
	if n >= len(entries) || entries[n].IsZero() {
		return at, r.unknown(revision)
	}
	return refs.Ref{ID: entries[n]}, nil
}

// atPath is what a tree holds at a path.
func (r *repo) atPath(from id, path, revision string) (refs.Ref, error) {
	tree, err := r.peelTo(from, objects.Tree, revision)
	if err != nil {
		return refs.Ref{}, r.orUnknown(err, revision)
	}
	path = strings.TrimSuffix(path, "/")
	for path != "" {
		name, rest, _ := strings.Cut(path, "/")
		entries, err := r.objects.Tree(tree)
		if err != nil {
			return refs.Ref{}, r.unknown(revision)
		}
		found := false
		for _, e := range entries {
			if e.Name == name && (rest == "" || e.Mode == objects.ModeTree) {
				tree, found = e.ID, true
			}
		}
		if !found {
			return refs.Ref{}, r.unknown(revision)
		}
		path = rest
	}
	return refs.Ref{ID: tree}, nil
}

// upstream is the tracking ref that a branch follows, "" for none.
func (r *repo) upstream(branch string) string {
	name, ok := strings.CutPrefix(branch, "refs/heads/")
	if !ok {
		return ""
	}
	remote, _ := r.config.Value("branch", name, "remote")
	merge, _ := r.config.Value("branch", name, "merge")
	switch {
	case remote == "" || merge == "":
		return ""
	case remote == ".":
		return merge
	}
	for _, spec := range r.values("remote", remote, "fetch") {
		from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if !ok || strings.HasPrefix(from, "^") {
			continue
		}
		before, after, wild := strings.Cut(from, "*")
		if !wild && from == merge {
			return to
		}
		if wild && len(merge) >= len(before)+len(after) && strings.HasPrefix(merge, before) && strings.HasSuffix(merge, after) {
			return strings.Replace(to, "*", merge[len(before):len(merge)-len(after)], 1)
		}
	}
	return ""
}

// values are all values of a key, where the configuration knows more than the last.
func (r *repo) values(section, subsection, name string) []string {
	if c, ok := r.config.(interface {
		Values(section, subsection, name string) []string
	}); ok {
		return c.Values(section, subsection, name)
	}
	if v, ok := r.config.Value(section, subsection, name); ok {
		return []string{v}
	}
	return nil
}
