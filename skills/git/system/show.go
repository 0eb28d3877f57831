package system

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/skills/proc"
)

// Show shows a commit with its changes, or a file or folder of a commit. A revision that is not a commit needs a second git.
func (r *repo) Show(ctx context.Context, spec engine.ShowSpec) (engine.Shown, error) {
	switch spec.Path {
	case "":
	case ".":
		return r.showObject(ctx, spec.Ref+":", "", spec.MaxBytes)
	default:
		return r.showObject(ctx, spec.Ref+":"+spec.Path, spec.Path+"/", spec.MaxBytes)
	}
	shown, err := r.showCommit(ctx, spec)
	if f := (*gitcmd.Failure)(nil); errors.As(err, &f) && isUnknownRevision(f) {
		return r.showObject(ctx, spec.Ref+"^{}", "", spec.MaxBytes)
	}
	return shown, gitcmd.Explain(err, "show_failed")
}

// showCommit shows a commit and its changes against its first parent.
func (r *repo) showCommit(ctx context.Context, spec engine.ShowSpec) (engine.Shown, error) {
	args := append(append(historySettings(), diffSettings()...), "show", "--first-parent", "-m")
	args = append(append(args, historyOptions()...), diffFormat(spec.Format, spec.Context, false)...)
	args = append(append(args, plainDiff(false)...), commitFormat+withBody, spec.Ref+"^{commit}", "--")
	out := &diffOutput{header: 1 + commitFields, limit: spec.MaxBytes}
	if _, err := r.Run(ctx, gitcmd.Command{Args: args, Reading: true, Stdout: out}); err != nil {
		return engine.Shown{}, err
	}
	header, _, err := out.splitFields()
	if err != nil {
		return engine.Shown{}, err
	}
	commit, err := parseCommit(header[1:])
	if err != nil {
		return engine.Shown{}, err
	}
	diff, err := out.parse("show", 0)
	if err != nil {
		return engine.Shown{}, err
	}
	object := engine.Object{ID: commit.Commit, Type: "commit", Commit: commit.Commit}
	return engine.Shown{Object: object, Commit: &commit, Diff: &diff, Truncated: diff.Truncated}, nil
}

// maxHeader bounds the line that cat-file prints before an object.
const maxHeader = 128

// showObject reads a blob or a tree as cat-file --batch prints it: "id type size", the content, a line break. folder is the
// prefix of names in a tree.
func (r *repo) showObject(ctx context.Context, name, folder string, limit int64) (engine.Shown, error) {
	kept := &proc.Head{Limit: maxHeader + int(limit)}
	_, err := r.Run(ctx, gitcmd.Command{Args: []string{"cat-file", "--batch"}, Stdin: name + "\n", Reading: true, Stdout: kept})
	if err != nil {
		return engine.Shown{}, gitcmd.Explain(err, "show_failed")
	}
	line, content, _ := bytes.Cut(kept.Bytes(), []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) != 3 || !engine.IsCommitID(fields[0]) { // "NAME missing", "NAME ambiguous", or a submodule's
		return engine.Shown{}, engine.RefNotFound("%s names nothing in %s", strings.TrimSuffix(name, "^{}"), r.at.Name)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return engine.Shown{}, fmt.Errorf("read git cat-file: %q is not a size", fields[2])
	}
	shown := engine.Shown{Object: engine.Object{ID: fields[0], Type: fields[1]}, Size: size, Truncated: size > limit}
	content = content[:min(int64(len(content)), size, limit)]
	switch shown.Type {
	case "blob":
		shown.Content = append([]byte{}, content...) // never nil, so that an empty file is one
	case "tree":
		shown.Tree, err = parseTree(content, folder, len(shown.ID)/2, shown.Truncated)
	default:
		err = fmt.Errorf("read git cat-file: %s is a %s", name, shown.Type)
	}
	return shown, err
}

// parseTree reads a tree object: a sequence of "mode name NUL id". It drops the incomplete last entry of a cut tree.
func parseTree(raw []byte, folder string, idLength int, cut bool) ([]engine.TreeEntry, error) {
	entries := []engine.TreeEntry{}
	for len(raw) > 0 {
		mode, rest, ok := bytes.Cut(raw, []byte(" "))
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < idLength {
			if cut {
				break
			}
			return nil, errors.New("read git cat-file: the tree is damaged")
		}
		e := engine.TreeEntry{Mode: fmt.Sprintf("%06s", mode), ID: hex.EncodeToString(rest[:idLength]), Path: folder + string(name)}
		switch e.Mode[:2] {
		case "04":
			e.Type = "tree"
		case "16":
			e.Type = "commit"
		default:
			e.Type = "blob"
		}
		entries, raw = append(entries, e), rest[idLength:]
	}
	return entries, nil
}
