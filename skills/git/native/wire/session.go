// Package wire fetches from remotes over HTTP and pushes to them. go-git speaks the protocol; this package binds the
// credential to one origin, chooses proxy and certificates from the call instead of the process, bounds answers, and gives
// failures their codes.
package wire

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Source is a remote that commits are fetched from.
type Source struct {
	session transport.UploadPackSession
	refs    *packp.AdvRefs
}

// OpenSource asks a remote for its refs.
func OpenSource(ctx context.Context, from engine.Source) (*Source, error) {
	client, at, err := dial(from, githttp.FollowInitialRedirects)
	if err != nil {
		return nil, err
	}
	s := &Source{}
	if s.session, err = client.NewUploadPackSession(at, nil); err != nil {
		return nil, err
	}
	s.refs, err = s.session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		s.refs, err = packp.NewAdvRefs(), nil
	}
	if err != nil {
		return nil, Judge(err, "clone_failed")
	}
	return s, nil
}

// Close ends the session.
func (s *Source) Close() error { return s.session.Close() }

// AnyCommit reports whether commits may be asked for that no ref names.
func (s *Source) AnyCommit() bool {
	return slices.ContainsFunc([]capability.Capability{"allow-any-sha1-in-want", "allow-reachable-sha1-in-want", "allow-tip-sha1-in-want"},
		s.refs.Capabilities.Supports)
}

// List returns the refs, HEAD among them.
func (s *Source) List() []engine.Ref {
	var list []engine.Ref
	for name, id := range s.refs.References {
		ref := engine.Ref{Name: name, ID: id.String()}
		if peeled, ok := s.refs.Peeled[name]; ok {
			ref.Peeled = peeled.String()
		}
		list = append(list, ref)
	}
	head := engine.Ref{Name: string(plumbing.HEAD)}
	for _, text := range s.refs.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(text, "HEAD:"); ok {
			head.Target = target
		}
	}
	if s.refs.Head != nil {
		head.ID = s.refs.Head.String()
	}
	if head.ID != "" || head.Target != "" {
		list = append(list, head)
	}
	return list
}

// Fetch streams a pack of the objects that commits reach, limited by a depth, and names the commits that lack parents.
func (s *Source) Fetch(ctx context.Context, want []plumbing.Hash, depth int) (io.ReadCloser, []plumbing.Hash, error) {
	req := packp.NewUploadPackRequestFromCapabilities(s.refs.Capabilities)
	req.Wants = want
	if depth > 0 {
		if !s.refs.Capabilities.Supports(capability.Shallow) {
			return nil, nil, fault.Failed("clone_failed", "the remote makes no shallow clones").WithHint("clone without depth")
		}
		req.Depth = packp.DepthCommits(depth)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, nil, err
		}
	}
	if s.refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, nil, err
		}
	}
	resp, err := s.session.UploadPack(ctx, req)
	if err != nil {
		return nil, nil, Judge(err, "clone_failed")
	}
	var pack io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, resp)
	}
	return struct {
		io.Reader
		io.Closer
	}{pack, resp}, resp.Shallows, nil
}

// Target is a remote that commits are pushed to.
type Target struct {
	session transport.ReceivePackSession
	refs    *packp.AdvRefs
}

// OpenTarget asks a remote for the refs that can be pushed to.
func OpenTarget(ctx context.Context, to engine.Source) (*Target, error) {
	client, at, err := dial(to, githttp.NoFollowRedirects)
	if err != nil {
		return nil, err
	}
	t := &Target{}
	if t.session, err = client.NewReceivePackSession(at, nil); err != nil {
		return nil, err
	}
	if t.refs, err = t.session.AdvertisedReferencesContext(ctx); err != nil {
		return nil, Judge(err, "push_failed")
	}
	return t, nil
}

// Close ends the session.
func (t *Target) Close() error { return t.session.Close() }

// IDs returns where the remote's refs are.
func (t *Target) IDs() map[string]plumbing.Hash { return t.refs.References }

// Push moves refs and sends a pack. It returns the reason for each ref that was refused.
func (t *Target) Push(ctx context.Context, commands []*packp.Command, pack io.ReadCloser) (map[string]string, error) {
	req := packp.NewReferenceUpdateRequestFromCapabilities(t.refs.Capabilities)
	req.Commands, req.Packfile = commands, pack
	report, err := t.session.ReceivePack(ctx, req)
	if report == nil {
		return nil, Judge(err, "push_failed")
	}
	if report.UnpackStatus != "ok" {
		return nil, fault.Failed("push_failed", "the remote could not unpack what it was sent: %s", report.UnpackStatus)
	}
	refused := map[string]string{}
	for _, s := range report.CommandStatuses {
		if s.Status != "ok" {
			refused[string(s.ReferenceName)] = s.Status
		}
	}
	return refused, nil
}
