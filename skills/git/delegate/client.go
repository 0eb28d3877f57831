package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const maxLine = 256 << 20 // bytes of one line of output

// Engine is the native engine in a process of its own.
type Engine struct{ second extra.File }

var (
	_ engine.Engine = Engine{}
	_ engine.Repo   = (*repo)(nil)
)

// New returns the engine that the second file serves.
func New(second extra.File) Engine { return Engine{second} }

// Name is engine.Native.
func (Engine) Name() string { return engine.Native }

// Clone fills a folder with a repository.
func (e Engine) Clone(ctx context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	return askEngine[engine.Cloned](ctx, e, request{Method: "clone", Root: spec.Root.Dir()}, spec, spec.Follow, nil)
}

// Refs asks a source for its refs.
func (e Engine) Refs(ctx context.Context, from engine.Source) ([]engine.Ref, error) {
	return askEngine[[]engine.Ref](ctx, e, request{Method: "refs"}, from, nil, nil)
}

// Open remembers where a repository is. Each operation opens it itself.
func (e Engine) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	config, ok := at.Config.(gitconfig.Config)
	if !ok && at.Config != nil {
		return nil, fmt.Errorf("open %s: its configuration is a %T", at.Name, at.Config)
	}
	to := &location{Name: at.Name, Dir: at.Dir, GitDir: at.GitDir, CommonDir: at.CommonDir, Config: config}
	return &repo{engine: e, root: at.Root, at: to}, nil
}

// repo is a repository that the second file opens for each operation. Methods that the native engine lacks are refused here.
type repo struct {
	engine.Unsupported
	engine Engine
	root   *workspace.Root
	at     *location
}

// Close has nothing to release.
func (r *repo) Close() error { return nil }

// askRepo asks for one operation on the repository.
func askRepo[T any](ctx context.Context, r *repo, method string, spec any, follow engine.Follow) (T, error) {
	return askEngine[T](ctx, r.engine, request{Method: method, Root: r.root.Dir(), At: r.at}, spec, follow, nil)
}

func (r *repo) Status(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	return askRepo[engine.Status](ctx, r, "status", spec, nil)
}

func (r *repo) Resolve(ctx context.Context, revision string) (engine.Object, error) {
	return askRepo[engine.Object](ctx, r, "resolve", revision, nil)
}

func (r *repo) Branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	return askRepo[[]engine.Branch](ctx, r, "branches", spec, nil)
}

func (r *repo) Log(ctx context.Context, spec engine.LogSpec) (engine.Log, error) {
	return askRepo[engine.Log](ctx, r, "log", spec, nil)
}

func (r *repo) Diff(ctx context.Context, spec engine.DiffSpec) (engine.Diff, error) {
	return askRepo[engine.Diff](ctx, r, "diff", spec, nil) // without a patch, which the second file does not make
}

func (r *repo) MergeBase(ctx context.Context, spec engine.MergeBaseSpec) (engine.MergeBase, error) {
	return askRepo[engine.MergeBase](ctx, r, "merge_base", spec, nil)
}

func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	return askRepo[engine.Added](ctx, r, "add", spec, nil)
}

func (r *repo) Commit(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	return askRepo[engine.Committed](ctx, r, "commit", spec, nil)
}

func (r *repo) ChangeBranch(ctx context.Context, spec engine.BranchChange) error {
	_, err := askRepo[nothing](ctx, r, "change_branch", spec, nil)
	return err
}

func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	_, err := askEngine[nothing](ctx, r.engine, request{Method: "bundle", Root: r.root.Dir(), At: r.at}, spec, nil, w)
	return err
}

// askEngine runs the second file for one operation.
func askEngine[T any](ctx context.Context, e Engine, req request, spec any, follow engine.Follow, data io.Writer) (result T, err error) {
	if req.Spec, err = json.Marshal(spec); err != nil {
		return result, fmt.Errorf("ask %s: %w", protocol.Extra, err)
	}
	stdin, err := json.Marshal(req)
	if err != nil {
		return result, fmt.Errorf("ask %s: %w", protocol.Extra, err)
	}
	in := &receiver{follow: follow, data: data}
	err = e.second.Run(ctx, "git without a git on PATH", Command, stdin, in)
	switch {
	case err != nil:
		return result, err
	case in.err != nil:
		return result, fmt.Errorf("read the answer of %s: %w", protocol.Extra, in.err)
	case in.last.Error != nil:
		return result, in.last.Error
	case in.last.Result == nil:
		return result, fmt.Errorf("%s gave no answer", protocol.Extra)
	}
	if err := json.Unmarshal(in.last.Result, &result); err != nil {
		return result, fmt.Errorf("read the answer of %s: %w", protocol.Extra, err)
	}
	return result, nil
}

// receiver reads the lines of the second file.
type receiver struct {
	follow  engine.Follow
	data    io.Writer
	partial []byte
	last    line
	err     error // the first one; later output is dropped
}

// Write never fails: the process must not block.
func (in *receiver) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && in.err == nil; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if in.partial = append(in.partial, rest...); len(in.partial) > maxLine {
				in.err = fmt.Errorf("a line has more than %d bytes", maxLine)
			}
			break
		}
		in.partial = append(in.partial, rest[:end]...)
		in.takeLine(in.partial)
		in.partial, rest = in.partial[:0], rest[end+1:]
	}
	return len(p), nil
}

func (in *receiver) takeLine(text []byte) {
	var l line
	if in.err = json.Unmarshal(text, &l); in.err != nil {
		return
	}
	switch {
	case l.Progress != nil:
		if in.follow != nil {
			in.follow(*l.Progress)
		}
	case l.Data != nil:
		if in.data == nil {
			in.err = errors.New("it sends data that was not asked for")
			return
		}
		_, in.err = in.data.Write(l.Data)
	default:
		in.last = l
	}
}
