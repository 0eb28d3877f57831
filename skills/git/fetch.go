package git

import (
	"cmp"
	"context"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxRefs bounds the refs that a fetch lists.
const maxRefs = 2000

type fetchInput struct {
	on
	Remote     string             `json:"remote"`
	Refspecs   []string           `json:"refspecs"`
	Depth      int                `json:"depth"`
	Unshallow  bool               `json:"unshallow"`
	Prune      bool               `json:"prune"`
	Tags       bool               `json:"tags"`
	Credential *remote.Credential `json:"credential"`
	Limits     engine.Limits      `json:"limits"`
}

type fetchData struct {
	about
	Remote    string             `json:"remote"`
	URL       string             `json:"url"`
	Updated   []engine.RefChange `json:"updated"`
	Count     int                `json:"count"`
	Truncated bool               `json:"truncated"`
}

// Fetch is git.fetch.
func (f family) Fetch(ctx context.Context, c *skill.Call, in fetchInput) (*fetchData, error) {
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	name := cmp.Or(in.Remote, "origin")
	from, release, err := r.openRemote(ctx, c, name, in.Trust, in.Credential, remote.NetPermission)
	if err != nil {
		return nil, err
	}
	defer release()
	fetched, err := r.Fetch(ctx, engine.FetchSpec{
		Remote: name, From: from, Refspecs: in.Refspecs, Depth: in.Depth, Unshallow: in.Unshallow, Prune: in.Prune, Tags: in.Tags,
		Limits: in.Limits, Follow: reportProgress(c),
	})
	data := fetchData{about: r.describe(), Remote: name, URL: remote.WithoutUser(from.URL), Updated: fetched.Updated, Count: len(fetched.Updated)}
	if data.Count > maxRefs {
		data.Updated, data.Truncated = data.Updated[:maxRefs], true
	}
	return &data, err
}

// checkInput validates the input alone.
func (in *fetchInput) checkInput() error {
	if in.Depth < 0 {
		return skill.BadInput("/depth", "is negative")
	}
	if in.Depth > 0 && in.Unshallow {
		return skill.BadInput("/unshallow", "and depth contradict each other")
	}
	for _, s := range in.Refspecs {
		if err := checkRefspec(s, "/refspecs"); err != nil {
			return err
		}
	}
	return nil
}

// checkRefspec accepts the name of a branch, and [+]src:dst with full names, in which one part may be *. A fetch writes to
// remote-tracking refs, tags and branches.
func checkRefspec(text, pointer string) error {
	src, dst, pair := strings.Cut(strings.TrimPrefix(text, "+"), ":")
	if !pair {
		return guard.CheckRef(text, pointer)
	}
	if strings.Count(src, "*") > 1 || strings.Count(src, "*") != strings.Count(dst, "*") {
		return fault.Unsafe("unsafe", "%s %q is not a refspec", pointer, text)
	}
	for _, side := range []string{src, dst} {
		if side == src && (src == "HEAD" || engine.IsCommitID(src)) {
			continue
		}
		if !strings.HasPrefix(side, "refs/") {
			return fault.Unsafe("unsafe", "%s %q names no full refs, such as refs/heads/main:refs/remotes/origin/main", pointer, text)
		}
		if err := guard.CheckRef(strings.Replace(side, "*", "x", 1), pointer); err != nil {
			return err
		}
	}
	for _, kind := range []string{"refs/remotes/", "refs/tags/", "refs/heads/"} {
		if strings.HasPrefix(dst, kind) {
			return nil
		}
	}
	return fault.Unsafe("unsafe", "%s %q writes to %s: a fetch writes below refs/remotes, refs/tags and refs/heads", pointer, text, dst)
}
