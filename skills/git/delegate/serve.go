package delegate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const maxRequest = 64 << 20 // bytes

// Serve reads one request from in, has e do it, and writes progress and the reply to out. Failures of the operation are
// in the reply; the error is of reading and writing.
func Serve(ctx context.Context, e engine.Engine, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var req request
	if err := json.Unmarshal(text, &req); err != nil || len(text) > maxRequest {
		return skill.BadInput("", "the request is not one of spritekit's: %v", err).WithHint("spritekit runs this command itself")
	}
	s := &server{engine: e, out: bufio.NewWriterSize(out, 64<<10)}
	result, err := s.serveRequest(ctx, req)
	var last line
	if err == nil {
		last.Result, err = json.Marshal(result)
	}
	if err != nil {
		last = line{Error: skill.Fault(err)}
	}
	s.sendLine(last)
	return errors.Join(s.err, s.out.Flush())
}

// server does one request.
type server struct {
	engine engine.Engine
	root   *workspace.Root
	out    *bufio.Writer
	err    error // of writing
}

func (s *server) sendLine(l line) {
	text, err := json.Marshal(l)
	if err == nil && s.err == nil {
		_, err = s.out.Write(append(text, '\n'))
	}
	s.err = errors.Join(s.err, err)
}

// sendProgress sends progress at once: the person looks at it now.
func (s *server) sendProgress(p engine.Progress) {
	s.sendLine(line{Progress: &p})
	s.err = errors.Join(s.err, s.out.Flush())
}

// Write sends a part of a bundle.
func (s *server) Write(p []byte) (int, error) {
	if len(p) > 0 {
		s.sendLine(line{Data: p})
	}
	return len(p), s.err
}

func (s *server) serveRequest(ctx context.Context, req request) (result any, err error) {
	if req.Root != "" {
		root, err := workspace.Open(req.Root)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		s.root = root
	}
	switch req.Method {
	case "clone":
		return run(req, func(spec engine.CloneSpec) (engine.Cloned, error) {
			spec.Root, spec.Follow = s.root, s.sendProgress
			return s.engine.Clone(ctx, spec)
		})
	case "refs":
		return run(req, func(from engine.Source) ([]engine.Ref, error) { return s.engine.Refs(ctx, from) })
	}
	if req.At == nil || s.root == nil {
		return nil, skill.BadInput("/at", "%s needs a repository", req.Method)
	}
	at := engine.Location{Root: s.root, Name: req.At.Name, Dir: req.At.Dir, GitDir: req.At.GitDir, CommonDir: req.At.CommonDir, Config: req.At.Config}
	r, err := s.engine.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	result, err = s.serveRepo(ctx, r, req)
	return result, errors.Join(err, r.Close())
}

// serveRepo does one operation on a repository.
func (s *server) serveRepo(ctx context.Context, r engine.Repo, req request) (any, error) {
	switch req.Method {
	case "status":
		return run(req, func(spec engine.StatusSpec) (engine.Status, error) { return r.Status(ctx, spec) })
	case "resolve":
		return run(req, func(revision string) (engine.Object, error) { return r.Resolve(ctx, revision) })
	case "branches":
		return run(req, func(spec engine.BranchList) ([]engine.Branch, error) { return r.Branches(ctx, spec) })
	case "log":
		return run(req, func(spec engine.LogSpec) (engine.Log, error) { return r.Log(ctx, spec) })
	case "diff":
		return run(req, func(spec engine.DiffSpec) (engine.Diff, error) { return r.Diff(ctx, spec) })
	case "merge_base":
		return run(req, func(spec engine.MergeBaseSpec) (engine.MergeBase, error) { return r.MergeBase(ctx, spec) })
	case "add":
		return run(req, func(spec engine.AddSpec) (engine.Added, error) { return r.Add(ctx, spec) })
	case "commit":
		return run(req, func(spec engine.CommitSpec) (engine.Committed, error) { return r.Commit(ctx, spec) })
	case "change_branch":
		return run(req, func(spec engine.BranchChange) (nothing, error) { return nothing{}, r.ChangeBranch(ctx, spec) })
	case "bundle":
		return run(req, func(spec engine.BundleSpec) (nothing, error) {
			w := bufio.NewWriterSize(s, 64<<10)
			return nothing{}, errors.Join(r.Bundle(ctx, spec, w), w.Flush())
		})
	}
	return nil, skill.BadInput("/method", "there is no operation %q", req.Method)
}

// run decodes the spec of a request strictly and does it.
func run[S, T any](req request, do func(S) (T, error)) (any, error) {
	var spec S
	d := json.NewDecoder(bytes.NewReader(req.Spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return do(spec)
}
