package git

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	encodingUTF8   = "utf-8"
	encodingBase64 = "base64"
)

type showInput struct {
	on
	Ref      string `json:"ref"`
	Path     string `json:"path"`
	Format   string `json:"format"`
	Context  *int   `json:"context"`
	Encoding string `json:"encoding"`
	MaxBytes int64  `json:"max_bytes"`
}

// showData is a commit with its diff, a file or a folder; Type says which of the groups below is set.
type showData struct {
	about
	Type      string `json:"type"` // commit, blob, tree
	ID        string `json:"id"`
	Truncated bool   `json:"truncated"`

	Commit *engine.Commit     `json:"commit,omitempty"`
	Files  *[]engine.DiffFile `json:"files,omitempty"`
	Totals *engine.Stats      `json:"totals,omitempty"`
	Patch  *string            `json:"patch,omitempty"`
	File   string             `json:"patch_file,omitempty"`

	Path     string  `json:"path,omitempty"`
	Size     *int64  `json:"size,omitempty"`
	Content  *string `json:"content,omitempty"`
	Encoding string  `json:"encoding,omitempty"`

	Entries *[]engine.TreeEntry `json:"entries,omitempty"`
}

// Show is git.show.
func (f family) Show(ctx context.Context, c *skill.Call, in showInput) (*showData, error) {
	lines, err := in.checkInput()
	if err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	shown, err := r.Show(ctx, engine.ShowSpec{Ref: in.Ref, Path: in.Path, Format: in.Format, Context: lines, MaxBytes: in.MaxBytes})
	if err != nil {
		return nil, err
	}
	if in.Format == engine.FormatNameStatus {
		shown.Diff.Uncount()
	}
	data := showData{about: r.describe(), Type: shown.Type, ID: shown.ID, Truncated: shown.Truncated, Path: in.Path}
	switch {
	case shown.Commit != nil:
		err = data.setCommit(c, shown)
	case shown.Content != nil:
		err = data.setContent(shown, in.Encoding)
	default:
		data.Entries = &shown.Tree
	}
	return &data, err
}

// checkInput validates the input; "main:docs/intro" names the path docs/intro of main.
func (in *showInput) checkInput() (lines int, err error) {
	in.Ref = cmp.Or(in.Ref, "HEAD")
	if ref, path, ok := strings.Cut(in.Ref, ":"); ok {
		if in.Path != "" {
			return 0, skill.BadInput("/path", "is named by ref, too")
		}
		in.Ref, in.Path = ref, cmp.Or(path, ".")
	}
	if err := guard.CheckRevision(in.Ref, "/ref"); err != nil {
		return 0, err
	}
	if in.Path = strings.TrimSuffix(in.Path, "/"); in.Path != "" {
		if err := guard.CheckTreePath(in.Path, "/path"); err != nil {
			return 0, err
		}
	}
	if in.Encoding != "" && in.Encoding != encodingUTF8 && in.Encoding != encodingBase64 {
		return 0, skill.BadInput("/encoding", "%q is not one of utf-8, base64", in.Encoding)
	}
	return checkDiff(&in.Format, in.Context, &in.MaxBytes)
}

// setCommit adds a commit and its diff.
func (d *showData) setCommit(c *skill.Call, shown engine.Shown) error {
	d.Commit, d.Files, d.Totals = shown.Commit, &shown.Diff.Files, &shown.Diff.Totals
	if len(shown.Diff.Files) > maxDiffFiles {
		list := shown.Diff.Files[:maxDiffFiles]
		d.Files, d.Truncated = &list, true
	}
	var placed patchData
	d.Patch = &placed.Text
	err := placed.storePatch(c, shown.Diff.Patch, func() any { return d })
	d.File = placed.File
	return err
}

// setContent adds the content of a file. Content that is not text is encoded as base64 unless the caller names an encoding.
func (d *showData) setContent(shown engine.Shown, encoding string) error {
	raw := shown.Content
	text := raw
	if shown.Truncated { // the last character may have been cut
		for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
			if utf8.RuneStart(text[i]) {
				if !utf8.FullRune(text[i:]) {
					text = text[:i]
				}
				break
			}
		}
	}
	isText := utf8.Valid(text)
	if encoding == encodingUTF8 && !isText {
		return fault.Failed("not_utf8", "%s is not UTF-8", d.Path).WithHint(`ask for "encoding":"base64"`)
	}
	content := string(text)
	if d.Encoding = encodingUTF8; encoding == encodingBase64 || !isText {
		d.Encoding, content = encodingBase64, base64.StdEncoding.EncodeToString(raw)
	}
	d.Content, d.Size = &content, &shown.Size
	return nil
}
