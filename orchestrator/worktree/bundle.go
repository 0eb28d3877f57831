package worktree

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// maxHeader bounds a bundle's header in bytes, maxHeaderLine one line of it.
const (
	maxHeader     = 1 << 20
	maxHeaderLine = 8 << 10
)

// bundleHeader is the header of a bundle. It is untrusted until the pack has been checked.
type bundleHeader struct {
	format        string // sha1 | sha256
	prerequisites []string
	head          string
	ref           string
	objects       int   // as the pack's header claims
	pack          int64 // offset of the pack
}

// readBundle parses the header of the bundle in r, strictly: version 2 or 3, exactly one head, no filter.
func readBundle(r io.Reader) (bundleHeader, error) {
	bad := func(format string, args ...any) (bundleHeader, error) {
		return bundleHeader{}, gitexec.Refuse("bad_bundle", "make it with git bundle create FILE BASE..BRANCH", "the bundle is not usable: "+format, args...)
	}
	br := bufio.NewReaderSize(r, maxHeaderLine)
	h := bundleHeader{format: "sha1"}
	var v3 bool
	for n := 0; ; n++ {
		raw, err := br.ReadSlice('\n')
		h.pack += int64(len(raw))
		if errors.Is(err, bufio.ErrBufferFull) || h.pack > maxHeader {
			return bad("its header is too long")
		}
		if errors.Is(err, io.EOF) {
			return bad("it ends in its header")
		}
		if err != nil {
			return h, fmt.Errorf("read the bundle: %w", err)
		}
		l := string(bytes.TrimSuffix(raw, []byte("\n")))
		if n == 0 {
			v3 = l == "# v3 git bundle"
			if !v3 && l != "# v2 git bundle" {
				return bad("it does not start like one")
			}
			continue
		}
		if l == "" {
			break
		}
		switch {
		case l[0] == '@' && v3 && h.head == "" && h.prerequisites == nil:
			format, ok := strings.CutPrefix(l, "@object-format=")
			if !ok || (format != "sha1" && format != "sha256") {
				return bad("it needs %q", gitexec.CleanLine(l))
			}
			h.format = format
		case l[0] == '-':
			oid, _, _ := strings.Cut(l[1:], " ")
			if !remote.IsOID(oid) {
				return bad("a prerequisite is not a commit id")
			}
			h.prerequisites = append(h.prerequisites, oid)
		default:
			oid, ref, ok := strings.Cut(l, " ")
			if !ok || !remote.IsOID(oid) {
				return bad("a head is not a commit id")
			}
			if h.head != "" {
				return bad("it has more than one head")
			}
			branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
			if ref != "HEAD" && (!isBranch || remote.CheckBranch(branch) != nil) {
				return bad("its head %q is not a branch", gitexec.CleanLine(ref))
			}
			h.head, h.ref = oid, ref
		}
	}
	if h.head == "" {
		return bad("it has no head")
	}
	var pack [12]byte
	if _, err := io.ReadFull(br, pack[:]); err != nil || string(pack[:4]) != "PACK" {
		return bad("it holds no pack")
	}
	h.objects = int(binary.BigEndian.Uint32(pack[8:]))
	return h, nil
}

// admitBundle checks the bundle file of q and imports its objects into a scratch repository in dir, which borrows those of
// t. Afterwards the objects are known to be well formed, of bounded size and complete down to q.Base.
func (g *Git) admitBundle(ctx context.Context, t target, q Request, dir string) (repo quarantine, head string, err error) {
	info, err := os.Lstat(q.Bundle)
	if err != nil {
		return repo, "", fmt.Errorf("open the bundle: %w", err)
	}
	if !info.Mode().IsRegular() {
		return repo, "", gitexec.Refuse("bad_bundle", "", "the bundle is not a regular file")
	}
	if info.Size() > g.maxBundle {
		return repo, "", gitexec.Refuse("limit_exceeded", "push in smaller steps", "the bundle has %d bytes; the limit is %d", info.Size(), g.maxBundle)
	}
	f, err := os.Open(q.Bundle)
	if err != nil {
		return repo, "", fmt.Errorf("open the bundle: %w", err)
	}
	defer f.Close()
	h, err := readBundle(f)
	if err != nil {
		return repo, "", err
	}
	switch {
	case h.format != t.format:
		return repo, "", gitexec.Refuse("bad_bundle", "", "the bundle uses %s, but the repository uses %s", h.format, t.format)
	case h.objects > g.maxObjects:
		return repo, "", gitexec.Refuse("limit_exceeded", "push in smaller steps", "the bundle has %d objects; the limit is %d", h.objects, g.maxObjects)
	case q.Head != "" && q.Head != h.head:
		return repo, "", gitexec.Refuse("head_mismatch", "", "the bundle's head is %s, not %s", h.head, q.Head)
	case h.head == q.Base:
		return repo, "", gitexec.Refuse("nothing_to_push", "commit something first", "the branch has no commit on top of its base")
	}
	if err := g.borrowObjects(ctx, t, dir); err != nil {
		return repo, "", err
	}
	repo = quarantine{git: g, dir: dir, format: t.format, limits: gitexec.ReadLimits(info.Size())}
	if err := repo.checkBase(ctx, q.Base, h.prerequisites); err != nil {
		return repo, "", err
	}
	// index-pack is a child process and reads from the current position of the file.
	if _, err := f.Seek(h.pack, io.SeekStart); err != nil {
		return repo, "", fmt.Errorf("read the bundle: %w", err)
	}
	unpack := repo.gitCommand("index-pack", "--stdin", "--fix-thin", "--strict", fmt.Sprintf("--max-input-size=%d", g.maxBundle))
	unpack.Stdin = f
	r, err := g.proc.Run(ctx, unpack)
	if err != nil {
		return repo, "", err
	}
	if r.Exit != 0 {
		return repo, "", gitexec.Refuse("bad_bundle", "", "the bundle's objects are refused: %s", r.Stderr)
	}
	if err := repo.checkSizes(ctx); err != nil {
		return repo, "", err
	}
	return repo, h.head, repo.checkHead(ctx, q.Base, h.head)
}

// checkBase checks that the target has the base and that every prerequisite is in its history.
func (q quarantine) checkBase(ctx context.Context, base string, prerequisites []string) error {
	r, err := q.run(ctx, "cat-file", "-t", base)
	if err != nil {
		return err
	}
	if r.Exit != 0 || r.StdoutText() != "commit" {
		return gitexec.Refuse("unknown_base", "base the work on a commit of the repository that the run was seeded from", "the repository has no commit %s", base)
	}
	for i, oid := range prerequisites {
		if i == 1000 {
			return gitexec.Refuse("bad_bundle", "", "the bundle is not usable: it has more than 1000 prerequisites")
		}
		if oid == base {
			continue
		}
		if ok, err := q.isAncestor(ctx, oid, base); err != nil {
			return err
		} else if !ok {
			return gitexec.Refuse("bad_bundle", "", "the bundle is not usable: it needs %s, which is not in the history of the base", oid)
		}
	}
	return nil
}

// checkHead checks that head is a complete commit that descends from base.
func (q quarantine) checkHead(ctx context.Context, base, head string) error {
	r, err := q.run(ctx, "cat-file", "-t", head)
	if err != nil {
		return err
	}
	if r.Exit != 0 || r.StdoutText() != "commit" {
		return gitexec.Refuse("bad_bundle", "", "the bundle has no commit %s, its head", head)
	}
	if ok, err := q.isAncestor(ctx, base, head); err != nil {
		return err
	} else if !ok {
		return gitexec.Refuse("not_a_descendant", "", "the head %s does not descend from the base %s", head, base)
	}
	// --strict has checked the links of the pack's objects; this walks from the head, as git receive-pack does.
	r, err = q.run(ctx, "rev-list", "--objects", "--quiet", head, "--not", base)
	if err != nil {
		return err
	}
	if r.Exit != 0 {
		return gitexec.Refuse("bad_bundle", "", "the bundle is incomplete: %s", r.Stderr)
	}
	return nil
}
