package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/skills/git/native/wire"
	"github.com/spritekit/lattice/spritekit/skill"
)

// source is where commits come from: a remote, a bundle, or a repository of the workspace.
type source interface {
	// list are the refs, HEAD among them.
	list() []engine.Ref
	// fetch streams a pack of what commits reach, with depth only so far, and names the commits that lack parents.
	fetch(ctx context.Context, want []id, depth int, said func(string)) (io.ReadCloser, []id, error)
	// anything reports whether commits may be asked for that no ref names.
	anything() bool
	close() error
}

// openSource finds out what a source is.
func openSource(ctx context.Context, from engine.Source) (source, error) {
	switch {
	case from.Bundle:
		return openBundle(from.URL)
	case from.Local:
		return openLocal(from.URL)
	}
	conn, err := wire.Dial(ctx, remote(from), wire.UploadPack)
	if err != nil {
		return nil, judgeRemote(err)
	}
	return &remoteSource{conn}, nil
}

// remote is how wire is told where to go.
func remote(from engine.Source) wire.Remote {
	r := wire.Remote{URL: from.URL, Protocol: from.Protocol, Env: from.Env}
	if c := from.Credential; c != nil {
		r.Username, r.Token = c.Username, c.Token
	}
	return r
}

// judgeRemote gives what a remote said its code.
func judgeRemote(err error) error {
	switch {
	case errors.Is(err, wire.ErrAuthentication):
		return engine.Authentication("%v", err)
	case errors.Is(err, wire.ErrNotRepository):
		return engine.NotRepositoryURL("%v", err)
	case errors.Is(err, wire.ErrUnreachable):
		return engine.Unreachable("%v", err)
	case errors.Is(err, wire.ErrUntrusted):
		return engine.Untrusted("%v", err)
	case errors.Is(err, wire.ErrTransport):
		return skill.Unsupported("unsupported", "the native engine does not speak ssh").
			WithHint("use an image with git and ssh, an https URL, or a bundle that was made outside")
	case errors.Is(err, wire.ErrRefused):
		return skill.Failed("clone_failed", "%v", err)
	}
	return err
}

// Refs asks a source for its refs.
func (Engine) Refs(ctx context.Context, from engine.Source) ([]engine.Ref, error) {
	s, err := openSource(ctx, from)
	if err != nil {
		return nil, explain(err, "clone_failed")
	}
	list := s.list()
	slices.SortFunc(list, func(a, b engine.Ref) int { return strings.Compare(a.Name, b.Name) })
	return list, s.close()
}

// remoteSource speaks to a remote.
type remoteSource struct{ conn *wire.Conn }

func (s *remoteSource) close() error { return s.conn.Close() }

func (s *remoteSource) anything() bool {
	return s.conn.Can("allow-any-sha1-in-want") || s.conn.Can("allow-reachable-sha1-in-want") || s.conn.Can("allow-tip-sha1-in-want")
}

func (s *remoteSource) list() []engine.Ref {
	var list []engine.Ref
	head := false
	for _, r := range s.conn.Refs {
		e := engine.Ref{Name: r.Name, ID: hexOf(r.ID), Peeled: hexOf(r.Peeled)}
		if r.Name == refs.Head {
			e.Target, head = s.conn.Head, true
		}
		list = append(list, e)
	}
	if !head && s.conn.Head != "" {
		list = append(list, engine.Ref{Name: refs.Head, Target: s.conn.Head})
	}
	return list
}

func (s *remoteSource) fetch(ctx context.Context, want []id, depth int, said func(string)) (io.ReadCloser, []id, error) {
	pack, err := s.conn.Fetch(ctx, wire.Wanted{IDs: want, Depth: depth, Said: said})
	if err != nil {
		return nil, nil, judgeRemote(err)
	}
	return pack, pack.Shallow, nil
}

// bundle is a file of refs and one pack.
type bundle struct {
	f    *os.File
	pack *bufio.Reader // behind the header
	refs []engine.Ref
}

// maxBundleRefs bounds the header of a bundle.
const maxBundleRefs = 1 << 20

func openBundle(name string) (*bundle, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b := &bundle{f: f, pack: bufio.NewReaderSize(f, 64<<10)}
	if err := b.header(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

func (b *bundle) line() (string, error) {
	text, err := b.pack.ReadSlice('\n')
	if err != nil {
		return "", engine.NotRepository("the file is no git bundle, or one that is cut off")
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// header reads the lines before the pack: capabilities, prerequisites, refs, an empty line.
func (b *bundle) header() error {
	line, err := b.line()
	if err != nil {
		return err
	}
	if line != "# v2 git bundle" && line != "# v3 git bundle" {
		return engine.NotRepository("the file is no git bundle")
	}
	for len(b.refs) < maxBundleRefs {
		if line, err = b.line(); err != nil || line == "" {
			return err
		}
		switch line[0] {
		case '@':
			if line != "@object-format=sha1" {
				return engine.Refuse(engine.Native, "bundles with "+line[1:])
			}
			continue
		case '-':
			return skill.Failed("clone_failed", "the bundle builds upon commits that it does not hold").WithHint("make it with git bundle create FILE --all")
		}
		text, name, ok := strings.Cut(line, " ")
		if _, valid := objects.ParseID(text); !ok || !valid || !refs.ValidName(name) {
			return engine.NotRepository("the bundle's header has the line %.80q", line)
		}
		b.refs = append(b.refs, engine.Ref{Name: name, ID: text})
	}
	return skill.Limit("too_many", "the bundle has more than %d refs", maxBundleRefs)
}

func (b *bundle) list() []engine.Ref { return b.refs }
func (b *bundle) anything() bool     { return false }
func (b *bundle) close() error       { return b.f.Close() }

func (b *bundle) fetch(context.Context, []id, int, func(string)) (io.ReadCloser, []id, error) {
	return io.NopCloser(b.pack), nil, nil
}

// local is a repository of the workspace. Its objects are read here; nothing is run in it.
type local struct{ repo *repo }

func openLocal(dir string) (*local, error) {
	git, err := gitFolder(dir)
	if err != nil {
		return nil, err
	}
	common := git
	if data, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
		if common = strings.TrimSpace(string(data)); !filepath.IsAbs(common) {
			common = filepath.Join(git, common)
		}
	}
	data, err := os.ReadFile(filepath.Join(common, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	config, err := gitconfig.Parse(data)
	if err != nil {
		return nil, skill.Failed("bad_config", "read the configuration of %s: %v", filepath.Base(dir), err)
	}
	r, err := open(engine.Location{Name: filepath.Base(dir), Dir: dir, GitDir: git, CommonDir: common, Config: asSource{config}})
	if err != nil {
		return nil, err
	}
	return &local{r}, nil
}

// asSource hides what matters only to a work tree.
type asSource struct{ gitconfig.Config }

// Value is Config's, but for keys of work trees.
func (c asSource) Value(section, subsection, name string) (string, bool) {
	if section == "core" && (name == "bare" || name == "worktree" || name == "sparsecheckout" || name == "splitindex" || name == "ignorecase") {
		return "", false
	}
	return c.Config.Value(section, subsection, name)
}

// gitFolder is where a repository's .git is: below dir, dir itself, or where dir/.git says.
func gitFolder(dir string) (string, error) {
	candidates := []string{filepath.Join(dir, ".git"), dir}
	if info, err := os.Lstat(candidates[0]); err == nil && info.Mode().IsRegular() && info.Size() < maxSmall {
		data, err := os.ReadFile(candidates[0])
		if err != nil {
			return "", err
		}
		target, ok := cutGitFile(data)
		if ok && !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		candidates = []string{target}
	}
	for _, c := range candidates {
		if _, err := os.Lstat(filepath.Join(c, refs.Head)); err == nil {
			if _, err := os.Stat(filepath.Join(c, "objects")); err == nil {
				return c, nil
			}
			if _, err := os.Stat(filepath.Join(c, "commondir")); err == nil {
				return c, nil
			}
		}
	}
	return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
}

func (l *local) close() error   { return l.repo.Close() }
func (l *local) anything() bool { return true }

func (l *local) list() []engine.Ref {
	var list []engine.Ref
	if branch, commit, err := l.repo.head(); err == nil {
		list = append(list, engine.Ref{Name: refs.Head, ID: hexOf(commit), Target: branch})
	}
	found, err := l.repo.refs.List("refs/")
	if err != nil {
		return list
	}
	for _, ref := range found {
		e := engine.Ref{Name: ref.Name, ID: ref.ID.String()}
		if peeled, _, err := l.repo.objects.Peel(ref.ID); err == nil && peeled != ref.ID {
			e.Peeled = peeled.String()
		}
		list = append(list, e)
	}
	return list
}

func (l *local) fetch(ctx context.Context, want []id, depth int, _ func(string)) (io.ReadCloser, []id, error) {
	ids, shallow, err := l.repo.closure(ctx, want, depth)
	if err != nil {
		return nil, nil, fmt.Errorf("read the source: %w", err)
	}
	read, write := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		write.CloseWithError(l.repo.objects.Send(write, ids, nil))
	}()
	return pipe{read, done}, shallow, nil
}

// pipe waits for its writer when it is closed.
type pipe struct {
	*io.PipeReader
	done <-chan struct{}
}

func (p pipe) Close() error {
	err := p.PipeReader.Close()
	<-p.done
	return err
}

// closure lists everything that commits and tags reach, with depth only so many commits far, and the commits at whose
// parents it stops.
func (r *repo) closure(ctx context.Context, want []id, depth int) (list, shallow []id, err error) {
	seen := map[id]bool{}
	level := want
	for far := 1; len(level) > 0; far++ {
		var next []id
		for _, at := range level {
			if seen[at] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, nil, context.Cause(ctx)
			}
			commit, err := r.reach(at, seen, &list)
			if err != nil {
				return nil, nil, err
			}
			if commit == nil {
				continue
			}
			if r.shallow[commit.id] || depth > 0 && far >= depth && len(commit.parents) > 0 {
				shallow = append(shallow, commit.id)
				continue
			}
			next = append(next, commit.parents...)
		}
		level = next
	}
	return list, shallow, nil
}

type reached struct {
	id      id
	parents []id
}

// reach lists an object with its trees and, of a tag, what it names. For a commit that was not met before it returns it.
func (r *repo) reach(at id, seen map[id]bool, list *[]id) (*reached, error) {
	for range 32 {
		if seen[at] {
			return nil, nil
		}
		typ, data, err := r.objects.Object(at)
		if err != nil {
			return nil, err
		}
		switch typ {
		case objects.Tree:
			return nil, r.mark(at, seen, list)
		case objects.Commit:
			seen[at] = true
			*list = append(*list, at)
			c, err := objects.ParseCommit(data)
			if err != nil {
				return nil, err
			}
			return &reached{at, c.Parents}, r.mark(c.Tree, seen, list)
		}
		seen[at] = true
		*list = append(*list, at)
		if typ != objects.Tag {
			return nil, nil
		}
		if at, err = r.objects.TagTarget(at); err != nil {
			return nil, err
		}
	}
	return nil, objects.ErrCorrupt
}
