package git

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultContext   = 3
	maxContext       = 1000
	defaultPatchSize = 1 << 20  // bytes of a patch
	maxPatchSize     = 16 << 20 // that a caller may request
	maxDiffFiles     = 2000     // that are listed; the totals count all
	// maxInline bounds the data of a result with its patch, in bytes. A larger patch goes to a file, so that the result
	// still contains the list of files.
	maxInline = protocol.SpillAt - 4<<10
)

type diffInput struct {
	on
	From     string   `json:"from"`
	To       string   `json:"to"`
	Staged   bool     `json:"staged"`
	Paths    []string `json:"paths"`
	Context  *int     `json:"context"`
	Format   string   `json:"format"`
	Renames  bool     `json:"renames"`
	Binary   bool     `json:"binary"`
	MaxBytes int64    `json:"max_bytes"`
}

type diffData struct {
	about
	engine.Diff
	patchData
}

// patchData is the text of a patch, or the file of the workspace that contains it.
type patchData struct {
	Text string `json:"patch"`
	File string `json:"patch_file,omitempty"`
}

// Diff is git.diff.
func (f family) Diff(ctx context.Context, c *skill.Call, in diffInput) (*diffData, error) {
	lines, err := in.checkInput()
	if err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	diff, err := r.Diff(ctx, engine.DiffSpec{
		From: in.From, To: in.To, Staged: in.Staged, Paths: in.Paths, Context: lines, Format: in.Format, Renames: in.Renames,
		Binary: in.Binary, MaxBytes: in.MaxBytes, Max: maxDiffFiles,
	})
	if err != nil {
		return nil, err
	}
	if in.Format == engine.FormatNameStatus {
		diff.Uncount()
	}
	data := diffData{about: r.describe(), Diff: diff}
	err = data.storePatch(c, diff.Patch, func() any { return data })
	return &data, err
}

// checkInput validates the input, fills in defaults and returns the lines of context.
func (in *diffInput) checkInput() (lines int, err error) {
	switch {
	case in.To != "" && in.From == "":
		return 0, skill.BadInput("/to", "needs from: the work tree and the index are what a commit is compared with")
	case in.To != "" && in.Staged:
		return 0, skill.BadInput("/staged", "cannot be used together with to")
	}
	for pointer, revision := range map[string]string{"/from": in.From, "/to": in.To} {
		if revision == "" {
			continue
		}
		if err := guard.CheckRevision(revision, pointer); err != nil {
			return 0, err
		}
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return 0, err
	}
	return checkDiff(&in.Format, in.Context, &in.MaxBytes)
}

// checkDiff validates the inputs that git.diff and git.show share: format, context and size.
func checkDiff(format *string, asked *int, size *int64) (lines int, err error) {
	*format = cmp.Or(*format, engine.FormatPatch)
	if !slices.Contains([]string{engine.FormatPatch, engine.FormatStat, engine.FormatNameStatus}, *format) {
		return 0, skill.BadInput("/format", "%q is not one of patch, stat, name-status", *format)
	}
	if lines = defaultContext; asked != nil {
		lines = *asked
	}
	if lines < 0 || lines > maxContext {
		return 0, skill.BadInput("/context", "is not between 0 and %d", maxContext)
	}
	if *size = cmp.Or(*size, defaultPatchSize); *size < 1 || *size > maxPatchSize {
		return 0, skill.BadInput("/max_bytes", "is not between 1 and %d", maxPatchSize)
	}
	return lines, nil
}

// storePatch puts a patch into the result if the patch is text and the result is then small enough, else into a file.
func (p *patchData) storePatch(c *skill.Call, text []byte, whole func() any) error {
	if utf8.Valid(text) && len(text) <= maxInline {
		p.Text = string(text)
		line, err := json.Marshal(whole())
		if err == nil && len(line) <= maxInline {
			return nil
		}
		p.Text = ""
	}
	file, sum, err := c.Spill(text)
	if err != nil {
		return err
	}
	p.File = file
	metadata, err := json.Marshal(map[string]any{"type": "patch", "size": len(text), "sha256": sum})
	if err != nil {
		return fmt.Errorf("describe the patch: %w", err)
	}
	return c.Emit(protocol.Artifact{Kind: "file", Ref: file, Metadata: metadata})
}
