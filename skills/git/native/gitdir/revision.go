package gitdir

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
)

// ResolveCommit finds the commit that a revision names, through a tag if need be.
func (d *Dir) ResolveCommit(revision string) (plumbing.Hash, error) {
	_, id, err := d.ResolveRevision(revision)
	if err != nil {
		return id, err
	}
	commit, typ, err := d.Peel(id)
	if err == nil && typ != plumbing.CommitObject {
		err = noRevision(revision)
	}
	return commit, err
}

func noRevision(revision string) error { return engine.RefNotFound("%s names nothing", revision) }

// ResolveRevision resolves a name or an id, then @{upstream}, then any of ^n, ~n and ^{type}. ref is the full name of the ref
// when the revision is that of a ref and nothing more.
func (d *Dir) ResolveRevision(revision string) (ref string, id plumbing.Hash, err error) {
	end := strings.IndexAny(revision, "^~")
	if end < 0 {
		end = len(revision)
	}
	name, at, ofBranch := strings.Cut(revision[:end], "@{")
	if ofBranch && at != "u}" && at != "upstream}" || strings.Contains(revision, ":") || strings.Contains(revision, "^{/") {
		return "", id, engine.Refuse("revisions such as " + revision)
	}
	if ofBranch && name == "" {
		name = string(plumbing.HEAD)
	}
	ref, id, err = d.resolveName(name)
	if ofBranch && err == nil {
		ref, id, err = d.ResolveRef(d.Upstream(ref))
	}
	if err != nil {
		return "", id, err
	}
	if id.IsZero() {
		return "", id, noRevision(revision)
	}
	for rest := revision[end:]; rest != ""; ref = "" {
		if id, rest, err = d.applySuffix(id, rest); err != nil {
			return "", id, err
		}
		if id.IsZero() {
			return "", id, noRevision(revision)
		}
	}
	return ref, id, nil
}

// resolveName resolves a full id, a name, or an abbreviated id; the zero id is none of them.
func (d *Dir) resolveName(name string) (string, plumbing.Hash, error) {
	if name == "@" {
		name = string(plumbing.HEAD)
	}
	if plumbing.IsHash(name) {
		id := plumbing.NewHash(name)
		if d.Store.HasEncodedObject(id) != nil {
			return "", plumbing.ZeroHash, nil
		}
		return "", id, nil
	}
	for _, pattern := range plumbing.RefRevParseRules {
		full := fmt.Sprintf(pattern, name)
		if full != string(plumbing.HEAD) && !IsRefName(full) {
			continue
		}
		last, id, err := d.ResolveRef(full)
		if err != nil {
			return "", id, err
		}
		if !id.IsZero() {
			if !strings.HasPrefix(last, "refs/") {
				last = "" // a detached HEAD
			}
			return last, id, nil
		}
	}
	return d.resolveShort(name)
}

// resolveShort resolves an id of which the first digits are given.
func (d *Dir) resolveShort(name string) (string, plumbing.Hash, error) {
	digits := strings.ToLower(name)
	if len(digits) < 4 || len(digits) > 40 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", plumbing.ZeroHash, nil
	}
	whole := plumbing.NewHash(digits[:len(digits)/2*2] + strings.Repeat("0", 40-len(digits)/2*2))
	ids, err := d.Store.HashesWithPrefix(whole[:len(digits)/2])
	if err != nil {
		return "", plumbing.ZeroHash, err
	}
	var found plumbing.Hash
	for _, id := range ids {
		if !strings.HasPrefix(id.String(), digits) || id == found {
			continue
		}
		if !found.IsZero() {
			return "", plumbing.ZeroHash, noRevision(name + ", the first digits of several objects,")
		}
		found = id
	}
	return "", found, nil
}

// applySuffix applies the first suffix; a zero id says that there is no such object.
func (d *Dir) applySuffix(id plumbing.Hash, rest string) (plumbing.Hash, string, error) {
	if text, ok := strings.CutPrefix(rest, "^{"); ok {
		word, after, closed := strings.Cut(text, "}")
		peeled, typ, err := d.Peel(id)
		switch {
		case err != nil || !closed:
			return plumbing.ZeroHash, "", err
		case word == "" || word == typ.String():
			return peeled, after, nil
		case word == "tree" && typ == plumbing.CommitObject:
			tree, err := d.TreeOf(peeled)
			return tree, after, err
		case word == "object" || word == "tag" && peeled != id:
			return id, after, nil
		}
		return plumbing.ZeroHash, "", nil
	}
	digits := len(rest[1:]) - len(strings.TrimLeft(rest[1:], "0123456789"))
	n := 1
	if digits > 0 {
		var err error
		if n, err = strconv.Atoi(rest[1 : 1+digits]); err != nil {
			return plumbing.ZeroHash, "", nil
		}
	}
	commit, typ, err := d.Peel(id)
	if err != nil || typ != plumbing.CommitObject {
		return plumbing.ZeroHash, "", err
	}
	steps, parent := 1, n
	switch rest[0] {
	case '~':
		steps, parent = n, 1
	case '^':
	default:
		return plumbing.ZeroHash, "", nil
	}
	for ; steps > 0 && parent > 0; steps-- {
		c, err := d.ReadCommit(commit)
		if err != nil || parent > len(c.ParentHashes) {
			return plumbing.ZeroHash, "", err
		}
		commit = c.ParentHashes[parent-1]
	}
	return commit, rest[1+digits:], nil
}
