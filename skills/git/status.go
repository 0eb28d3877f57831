package git

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxStatus bounds the entries of a status; the counts go on.
const maxStatus = 2000

type statusInput struct {
	on
	Paths     []string `json:"paths"`
	Untracked string   `json:"untracked"`
	Ignored   bool     `json:"ignored"`
	Renames   bool     `json:"renames"`
}

type statusData struct {
	about
	engine.Status
}

// Status is git.status.
func (f family) Status(ctx context.Context, c *skill.Call, in statusInput) (*statusData, error) {
	in.Untracked = cmp.Or(in.Untracked, engine.UntrackedNormal)
	if !slices.Contains([]string{engine.UntrackedNormal, engine.UntrackedAll, engine.UntrackedNo}, in.Untracked) {
		return nil, skill.BadInput("/untracked", "%q is not one of normal, all, no", in.Untracked)
	}
	if err := checkPaths(in.Paths); err != nil {
		return nil, err
	}
	ctx, r, err := f.open(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	status, err := r.Status(ctx, engine.StatusSpec{
		Paths: in.Paths, Untracked: in.Untracked, Ignored: in.Ignored, Renames: in.Renames, Max: maxStatus,
	})
	return &statusData{about: r.about(), Status: status}, err
}

// checkPaths refuses paths that leave the repository or reach into .git.
func checkPaths(paths []string) error {
	for i, p := range paths {
		first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(p)), "/")
		if p == "" || strings.ContainsRune(p, 0) || !filepath.IsLocal(p) || strings.EqualFold(first, ".git") {
			return fault.Unsafe("unsafe_path", "/paths/%d %q is not a path inside the repository", i, p).
				WithHint("name files relative to the top of the repository")
		}
	}
	return nil
}
