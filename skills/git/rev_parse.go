package git

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxRevisions bounds the names in one call.
const maxRevisions = 100

type revParseInput struct {
	on
	Refs []string `json:"refs"`
}

type revParseData struct {
	about
	Top      string     `json:"top"`
	GitDir   string     `json:"git_dir"`
	Branch   string     `json:"branch"`
	Head     string     `json:"head"`
	Detached bool       `json:"detached"`
	Resolved []resolved `json:"resolved"`
}

type resolved struct {
	Revision string `json:"revision"`
	engine.Object
}

// RevParse is git.rev_parse: it locates the repository and its HEAD, and resolves names.
func (f family) RevParse(ctx context.Context, c *skill.Call, in revParseInput) (*revParseData, error) {
	if len(in.Refs) > maxRevisions {
		return nil, skill.BadInput("/refs", "has more than %d names", maxRevisions)
	}
	for i, revision := range in.Refs {
		if err := guard.CheckRevision(revision, fmt.Sprintf("/refs/%d", i)); err != nil {
			return nil, err
		}
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	data := revParseData{about: r.describe(), Top: r.at.Name, Resolved: []resolved{}}
	if data.GitDir, err = filepath.Rel(c.Root.Dir(), r.at.GitDir); err != nil {
		return nil, fmt.Errorf("name the git folder: %w", err)
	}
	if err := r.readHead(ctx, &data); err != nil {
		return nil, err
	}
	for _, revision := range in.Refs {
		object, err := r.Resolve(ctx, revision)
		if err != nil {
			return nil, err
		}
		data.Resolved = append(data.Resolved, resolved{revision, object})
	}
	return &data, nil
}

// readHead adds the branch and commit of HEAD. Before the first commit only the file HEAD names the branch.
func (r *repo) readHead(ctx context.Context, data *revParseData) error {
	object, err := r.Resolve(ctx, "HEAD")
	if fault.HasCode(err, "ref_not_found") {
		text, err := r.at.Root.ReadFile(filepath.Join(r.at.GitDir, "HEAD"), guard.MaxSmall)
		data.Branch = strings.TrimPrefix(strings.TrimSpace(string(text)), "ref: refs/heads/")
		return err
	}
	data.Head = object.Commit
	branch, ok := strings.CutPrefix(object.Ref, "refs/heads/")
	if data.Detached = !ok; ok {
		data.Branch = branch
	}
	return err
}
