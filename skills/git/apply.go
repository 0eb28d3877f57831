package git

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxStrip = 32
	maxFuzz  = 3
)

type applyInput struct {
	on
	Patch    string `json:"patch"`
	File     string `json:"patch_file"`
	Check    bool   `json:"check"`
	Index    *bool  `json:"index"`
	ThreeWay bool   `json:"three_way"`
	Reverse  bool   `json:"reverse"`
	Strip    *int   `json:"strip"`
	Fuzz     int    `json:"fuzz"`
	Atomic   *bool  `json:"atomic"`
}

type applyData struct {
	about
	engine.Applied
	Checked bool `json:"checked"`
}

// Apply is git.apply. It parses and checks the patch before an engine sees it.
func (f family) Apply(ctx context.Context, c *skill.Call, in applyInput) (*applyData, error) {
	spec, err := in.toSpec(c)
	if err != nil {
		return nil, err
	}
	files, err := patch.Parse(spec.Patch, spec.Strip)
	if err != nil {
		return nil, skill.BadInput(in.patchPointer(), "is not a patch: %v", err).WithHint("give what git diff prints, or diff -u")
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.refuseUnsafe(files); err != nil {
		return nil, err
	}
	done, err := r.Apply(ctx, spec)
	if err != nil {
		return nil, err
	}
	if len(done.Rejected) > 0 && len(done.Applied) == 0 {
		first := done.Rejected[0]
		hint := "read the file as it is now and make a new patch; nothing was changed"
		if first.Reason == engine.ReasonNotStaged {
			hint = `the file has changes that are not staged: git.add it, or apply with "index":false; nothing was changed`
		}
		return nil, fault.Failed("patch_failed", "the patch does not apply to %s: %s", first.Path, first.Reason).WithHint("%s", hint).
			WithDetails(map[string]any{"rejected": done.Rejected})
	}
	if len(done.Rejected) > 0 {
		c.Warn("partly_applied", "some files of the patch were rejected")
	}
	return &applyData{about: r.describe(), Applied: done, Checked: in.Check}, nil
}

// patchPointer returns the JSON pointer of the input that holds the patch.
func (in *applyInput) patchPointer() string {
	if in.File != "" {
		return "/patch_file"
	}
	return "/patch"
}

// toSpec validates the input, reads the patch and fills in defaults.
func (in *applyInput) toSpec(c *skill.Call) (engine.ApplySpec, error) {
	spec := engine.ApplySpec{
		Check: in.Check, Index: in.Index == nil || *in.Index, ThreeWay: in.ThreeWay, Reverse: in.Reverse, Strip: 1, Fuzz: in.Fuzz,
		Reject: in.Atomic != nil && !*in.Atomic,
	}
	if in.Strip != nil {
		spec.Strip = *in.Strip
	}
	switch {
	case (in.Patch == "") == (in.File == ""):
		return spec, skill.BadInput("/patch", "or patch_file: exactly one of them says what to apply")
	case spec.Strip < 0 || spec.Strip > maxStrip:
		return spec, skill.BadInput("/strip", "is not between 0 and %d", maxStrip)
	case spec.Fuzz < 0 || spec.Fuzz > maxFuzz:
		return spec, skill.BadInput("/fuzz", "is not between 0 and %d", maxFuzz)
	case spec.ThreeWay && !spec.Index:
		return spec, skill.BadInput("/three_way", "needs index")
	case spec.ThreeWay && spec.Reject:
		return spec, skill.BadInput("/three_way", "leaves conflicts instead of rejecting files; leave atomic out")
	}
	spec.Patch = []byte(in.Patch)
	if in.File != "" {
		var err error
		if spec.Patch, err = c.Root.ReadFile(in.File, maxPatchSize); err != nil {
			return spec, err
		}
	}
	// A patch written by hand often lacks the final line break.
	if !bytes.HasSuffix(spec.Patch, []byte("\n")) {
		spec.Patch = append(spec.Patch, '\n')
	}
	return spec, nil
}

// refuseUnsafe refuses a patch that changes files outside the repository, in .git, or behind a symlink of the work tree.
func (r *repo) refuseUnsafe(files patch.Files) error {
	unsafe := func(name, problem string) error {
		return fault.Unsafe("unsafe_path", "the patch touches %q, which %s", name, problem).
			WithHint("a patch may change files of the repository only, and not through symlinks")
	}
	if name, problem := files.Judge(); problem != "" {
		return unsafe(name, problem)
	}
	for _, f := range files {
		for _, name := range f.Names() {
			if first, _, _ := strings.Cut(name, "/"); r.at.Name == "." && strings.EqualFold(first, protocol.Dir) && (first != protocol.Dir || protocol.IsRuntime(name)) {
				return unsafe(name, "is the runtime's own")
			}
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				info, err := r.at.Root.Lstat(filepath.Join(r.at.Name, dir))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				if info.Mode()&fs.ModeSymlink != 0 {
					return unsafe(name, "lies behind the link "+dir)
				}
			}
		}
	}
	return nil
}
