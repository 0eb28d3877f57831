// Package wire fetches from remotes over HTTP. go-git speaks the protocol; this package binds the credential to one origin,
// chooses proxy and certificates from the call instead of the process, bounds answers, and gives failures their codes.
package wire

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Source is a remote that commits are fetched from.
type Source struct {
	session transport.UploadPackSession
	refs    *packp.AdvRefs
}

// OpenSource asks a remote for its refs.
func OpenSource(ctx context.Context, from engine.Source) (*Source, error) {
	client, at, err := dial(from)
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
		return nil, Judge(err)
	}
	return s, nil
}

// Close ends the session.
func (s *Source) Close() error { return s.session.Close() }

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

// Fetch streams a pack of the objects that commits reach.
func (s *Source) Fetch(ctx context.Context, want []plumbing.Hash) (io.ReadCloser, error) {
	req := packp.NewUploadPackRequestFromCapabilities(s.refs.Capabilities)
	req.Wants = want
	if s.refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	resp, err := s.session.UploadPack(ctx, req)
	if err != nil {
		return nil, Judge(err)
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
	}{pack, resp}, nil
}
