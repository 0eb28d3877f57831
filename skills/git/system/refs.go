package system

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// maxSmall is more than git's own small files have, in bytes. They are read through the workspace, because any process in
// the sprite can put a FIFO, a link or a huge file in their place.
const maxSmall = 1 << 20

// Refs are read from their files where that is simple: HEAD, a loose ref, packed-refs. Every other case (reftable, chains
// of symbolic refs, odd content) is not answered, and git is asked.

// head reads HEAD: the full name of its branch, or a commit. ok is false when git must be asked.
func (r *repo) head() (ref, commit string, ok bool) {
	if !r.plainRefs() {
		return "", "", false
	}
	text, err := r.small(r.at.GitDir, "HEAD")
	if err != nil {
		return "", "", false
	}
	if engine.IsCommitID(text) {
		return "", text, true
	}
	ref, isRef := strings.CutPrefix(text, "ref: ")
	if ref = strings.TrimSpace(ref); !isRef || !strings.HasPrefix(ref, "refs/heads/") || !filepath.IsLocal(ref) {
		return "", "", false
	}
	commit, ok = r.ref(ref)
	return ref, commit, ok
}

// ref reads a ref that all work trees share, "" when it is not there.
func (r *repo) ref(name string) (id string, ok bool) {
	text, err := r.small(r.at.CommonDir, name)
	switch {
	case err == nil && engine.IsCommitID(text):
		return text, true
	case errors.Is(err, fs.ErrNotExist):
		return r.packed(name)
	}
	return "", false // a symbolic ref, a folder of that name, a broken one
}

// packed looks a ref up in packed-refs.
func (r *repo) packed(name string) (id string, ok bool) {
	ok = r.eachPacked(func(entry, at string) bool {
		if entry == name {
			id = at
		}
		return id == ""
	})
	return id, ok
}

// plainRefs reports whether refs are files.
func (r *repo) plainRefs() bool {
	storage, _ := r.at.Config.Value("extensions", "", "refstorage")
	return storage == "" || strings.EqualFold(storage, "files")
}

func (r *repo) small(dir, name string) (string, error) {
	data, err := r.at.Root.ReadFile(filepath.Join(dir, name), maxSmall)
	return strings.TrimRight(string(data), "\n"), err
}

// commitOf returns the commit that HEAD or a full ref names, "" when there is none.
func (r *repo) commitOf(ctx context.Context, name string) (string, error) {
	var commit string
	var ok bool
	if name == "HEAD" {
		_, commit, ok = r.head()
	} else if r.plainRefs() && strings.HasPrefix(name, "refs/heads/") && filepath.IsLocal(name) {
		commit, ok = r.ref(name)
	}
	if ok {
		return commit, nil
	}
	return r.resolve(ctx, name)
}

// branch returns the current branch, "" when HEAD is detached.
func (r *repo) branch(ctx context.Context) (string, error) {
	if ref, _, ok := r.head(); ok {
		return strings.TrimPrefix(ref, "refs/heads/"), nil
	}
	out, err := r.in(ctx, command{args: []string{"symbolic-ref", "--quiet", "--short", "HEAD"}, ok: []int{1}, reading: true})
	return strings.TrimSpace(string(out)), explain(err, "branch_failed")
}

// resolve returns the commit that a revision names, "" when it names none.
func (r *repo) resolve(ctx context.Context, revision string) (string, error) {
	out, err := r.in(ctx, command{
		args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"}, ok: []int{1, 128}, reading: true,
	})
	if err != nil {
		return "", err
	}
	// Older versions print the separator too.
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), "--end-of-options"))
	if !engine.IsCommitID(text) {
		return "", nil
	}
	return text, nil
}

// loose reads a loose object of at most maxSmall bytes: its type and content.
func (r *repo) loose(id string) (kind string, content []byte, ok bool) {
	f, err := r.at.Root.OpenFile(filepath.Join(r.at.CommonDir, "objects", id[:2], id[2:]), os.O_RDONLY, 0)
	if err != nil {
		return "", nil, false
	}
	defer f.Close()
	z, err := zlib.NewReader(f)
	if err != nil {
		return "", nil, false
	}
	data, err := io.ReadAll(io.LimitReader(z, maxSmall+1))
	header, content, found := bytes.Cut(data, []byte{0})
	kind, _, _ = strings.Cut(string(header), " ")
	return kind, content, err == nil && found && len(data) <= maxSmall
}

// message returns the message of a commit.
func (r *repo) message(ctx context.Context, commit string) (string, error) {
	kind, content, ok := r.loose(commit)
	if !ok || kind != "commit" {
		out, err := r.read(ctx, "cat-file", "commit", commit)
		if err != nil {
			return "", err
		}
		content = out
	}
	_, message, _ := bytes.Cut(content, []byte("\n\n"))
	return string(message), nil
}

// split splits the NUL-terminated records of -z.
func split(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}
