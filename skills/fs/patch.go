package fs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/unified"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	maxPatched      = 1000     // files
	maxPatchedBytes = 64 << 20 // of all files together
)

type patchInput struct {
	Patch   string            `json:"patch"`
	Path    string            `json:"path"`
	Strip   *int              `json:"strip"`
	Fuzz    int               `json:"fuzz"`
	Reverse bool              `json:"reverse"`
	Expect  map[string]string `json:"expect_sha256"`
	DryRun  bool              `json:"dry_run"`
}

type patchData struct {
	Files   []patchedFile `json:"files"`
	Changed bool          `json:"changed"`
}

type patchedFile struct {
	Path    string         `json:"path"`
	From    string         `json:"from,omitempty"` // of a rename or copy
	Action  unified.Action `json:"action"`
	Hunks   int            `json:"hunks"`
	Offsets []int          `json:"offsets,omitempty"` // of each hunk, in lines, when one was not at its place
	Fuzz    int            `json:"fuzz,omitempty"`    // the most that a hunk needed
	Added   int            `json:"added"`
	Removed int            `json:"removed"`
	SHA256  string         `json:"sha256,omitempty"` // of the current file
}

// patchFiles does the work of fs.patch.
func patchFiles(ctx context.Context, c *skill.Call, in patchInput) (*patchData, error) {
	files, err := in.parseFiles()
	if err != nil {
		return nil, err
	}
	base, err := resolveFolder(c, in.Path)
	if err != nil {
		return nil, err
	}
	if err := in.checkExpected(ctx, c); err != nil {
		return nil, err
	}
	p := patcher{call: c, base: base, fuzz: in.Fuzz, states: map[string]*state{}}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.patchFile(f); err != nil {
			return nil, err
		}
	}
	if p.rejects != nil {
		return nil, newRejectedError(p.rejects)
	}
	data := patchData{Files: p.done}
	if in.DryRun {
		return &data, nil
	}
	if err := p.writeAll(); err != nil {
		return nil, err
	}
	data.Changed = true
	for _, name := range slices.Sorted(maps.Keys(p.states)) {
		if s := p.states[name]; s.exists && s.touched {
			if err := emitFile(c, name, sumOf([]byte(s.text)), int64(len(s.text))); err != nil {
				return nil, err
			}
		}
	}
	return &data, nil
}

// parseFiles reads the patch.
func (in *patchInput) parseFiles() ([]unified.File, error) {
	switch {
	case in.Fuzz < 0 || in.Fuzz > unified.MaxFuzz:
		return nil, skill.BadInput("/fuzz", "is not between 0 and %d", unified.MaxFuzz)
	case in.Strip != nil && (*in.Strip < 0 || *in.Strip > 100):
		return nil, skill.BadInput("/strip", "is not between 0 and 100")
	}
	files, err := unified.Parse(in.Patch)
	if syntax, ok := errors.AsType[*unified.SyntaxError](err); ok && strings.Contains(syntax.Reason, "binary") {
		return nil, fault.Unsupported("binary_patch", "line %d of the patch begins a binary diff", syntax.Line).
			WithHint("write binary files with fs.write and encoding base64, or apply the patch with git.apply")
	}
	if err != nil {
		return nil, skill.BadInput("/patch", "does not follow the format of unified diffs: %v", err).
			WithHint("make it with git diff or diff -u; fs.edit replaces texts without line numbers")
	}
	if len(files) > maxPatched {
		return nil, fault.Limit("too_many", "the patch changes more than %d files", maxPatched).WithHint("split the patch")
	}
	strip := 0
	if in.Strip != nil {
		strip = *in.Strip
	} else if !slices.ContainsFunc(files, func(f unified.File) bool { return !f.Prefixed() }) {
		strip = 1
	}
	for i := range files {
		if !files[i].Strip(strip) {
			return nil, skill.BadInput("/strip", "nothing is left of a path of file %d of the patch without %d leading parts", i+1, strip)
		}
		if in.Reverse {
			files[i] = files[i].Reverse()
		}
	}
	if in.Reverse {
		slices.Reverse(files)
	}
	return files, nil
}

// checkExpected judges expect_sha256, whose paths are relative to the workspace like all others.
func (in *patchInput) checkExpected(ctx context.Context, c *skill.Call) error {
	for _, name := range slices.Sorted(maps.Keys(in.Expect)) {
		rel, err := c.Root.Rel(name)
		if err != nil {
			return err
		}
		if _, err := statExpected(ctx, c, rel, in.Expect[name]); err != nil {
			return err
		}
	}
	return nil
}

// patchReject is a hunk, or a whole file, that does not apply.
type patchReject struct {
	Path string `json:"path"`
	unified.Reject
}

func newRejectedError(all []patchReject) error {
	first := all[0]
	where := first.Path
	if first.Hunk > 0 {
		where += ", hunk " + first.Header
	}
	return fault.Failed("rejected", "%s of the patch cannot be applied, and nothing was changed; the first, %s: %s", formatCount(len(all), "part"), where, first.Reason).
		WithHint("details name each; read the files as they are now and make a new patch").
		WithDetails(map[string]any{"rejects": all})
}

// patcher applies diffs to files in memory, one after the other, so that a later diff sees the result of an earlier one.
type patcher struct {
	call    *skill.Call
	base    string
	fuzz    int
	states  map[string]*state
	bytes   int
	done    []patchedFile
	rejects []patchReject
}

// state is a file as the diffs so far leave it.
type state struct {
	exists  bool
	text    string
	mode    fs.FileMode
	touched bool   // it is no longer as on disk
	taken   *taken // as it was read; nil when it was not there
	read    string // its text then
}

// resolveName is the path of a file of the patch, which must stay in the folder that the patch is for.
func (p *patcher) resolveName(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fault.Unsafe("unsafe_path", "the patch names %s, which leads out of the folder that it is for", name).
			WithHint("look at who made the patch; strip takes leading parts off its paths")
	}
	return resolveEntry(p.call, path.Join(p.base, name), "/patch")
}

func (p *patcher) stateOf(name string) (*state, error) {
	if s := p.states[name]; s != nil {
		return s, nil
	}
	s := new(state)
	info, err := p.call.Root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		if info.IsDir() {
			return nil, isDirectory(name)
		}
		return nil, specialFile(name, info.Mode())
	default:
		t, err := readTaken(p.call, name)
		if err != nil {
			return nil, err
		}
		*s = state{exists: true, text: string(t.data), mode: info.Mode().Perm(), taken: &t}
		s.taken.data, s.read = nil, s.text
		if err := p.countBytes(len(s.text)); err != nil {
			return nil, err
		}
	}
	p.states[name] = s
	return s, nil
}

// countBytes adds n, which may be negative, to the size of all files. It fails if the sum is too large.
func (p *patcher) countBytes(n int) error {
	if p.bytes += n; p.bytes > maxPatchedBytes {
		return fault.Limit("too_large", "the files of the patch have more than %d bytes together", maxPatchedBytes).WithHint("split the patch")
	}
	return nil
}

func (p *patcher) patchFile(f unified.File) error {
	old, new, err := p.resolveNames(f)
	if err != nil {
		return err
	}
	from, err := p.stateOf(old)
	if err != nil {
		return err
	}
	to, err := p.stateOf(new)
	if err != nil {
		return err
	}
	mode, err := fileMode(f.Mode)
	if err != nil {
		return err
	}
	switch {
	case f.Action == unified.Create && from.exists:
		p.addReject(new, "it exists already")
		return nil
	case f.Action != unified.Create && !from.exists:
		p.addReject(old, "it is not there")
		return nil
	case new != old && to.exists:
		p.addReject(new, "it exists already")
		return nil
	}
	source := from.text
	if f.Action == unified.Copy && from.taken != nil {
		source = from.read // git copies files as they are before the patch
	}
	text, applied, rejects := f.Apply(source, p.fuzz)
	if rejects != nil && source != from.text { // the diff may be relative to the patched source
		text, applied, rejects = f.Apply(from.text, p.fuzz)
	}
	for _, r := range rejects {
		p.rejects = append(p.rejects, patchReject{old, r})
	}
	if rejects != nil {
		return nil
	}
	if f.Action == unified.Delete && text != "" && !f.Uncopy {
		p.addReject(old, "it has lines that the patch does not remove")
		return nil
	}
	mode = cmp.Or(mode, from.mode)
	grown := len(text) - len(to.text)
	if f.Action == unified.Rename {
		grown = len(text) - len(from.text)
	}
	if err := p.countBytes(grown); err != nil {
		return err
	}
	if f.Action == unified.Delete || f.Action == unified.Rename {
		*from = state{touched: true, taken: from.taken, read: from.read}
	}
	if f.Action != unified.Delete {
		*to = state{exists: true, text: text, mode: mode, touched: true, taken: to.taken, read: to.read}
	}
	p.done = append(p.done, newFileReport(f, old, new, text, applied))
	return nil
}

// resolveNames are the paths in the workspace of the file before and after; the same one unless it is renamed or copied.
func (p *patcher) resolveNames(f unified.File) (old, new string, err error) {
	name := f.New
	switch f.Action {
	case unified.Delete:
		name = f.Old
	case unified.Rename, unified.Copy:
		if old, err = p.resolveName(f.Old); err != nil {
			return "", "", err
		}
	case unified.Modify: // diff writes the names that it was given: the existing one is meant
		if new, err = p.resolveName(f.New); err != nil {
			return "", "", err
		}
		if s, serr := p.stateOf(new); serr == nil && !s.exists && f.Old != "" {
			name = f.Old
		}
	}
	if new, err = p.resolveName(name); err != nil {
		return "", "", err
	}
	old = cmp.Or(old, new)
	return old, new, nil
}

func (p *patcher) addReject(name, reason string) {
	p.rejects = append(p.rejects, patchReject{name, unified.Reject{Reason: reason}})
}

func newFileReport(f unified.File, old, new, text string, applied []unified.Applied) patchedFile {
	done := patchedFile{Path: new, Action: f.Action, Hunks: len(f.Hunks), Added: f.Added(), Removed: f.Removed()}
	if old != new {
		done.From = old
	}
	if f.Action != unified.Delete {
		done.SHA256 = sumOf([]byte(text))
	}
	moved := false
	for _, a := range applied {
		done.Offsets = append(done.Offsets, a.Offset)
		done.Fuzz = max(done.Fuzz, a.Fuzz)
		moved = moved || a.Offset != 0
	}
	if !moved {
		done.Offsets = nil
	}
	return done
}

// fileMode reads a mode as git writes it; 0 for none.
func fileMode(text string) (fs.FileMode, error) {
	switch text {
	case "":
		return 0, nil
	case "100644":
		return 0o644, nil
	case "100755":
		return 0o755, nil
	}
	return 0, fault.Unsupported("special_mode", "the patch gives a file the mode %.20q: symlinks and submodules are not patched", text).
		WithHint("apply it with git.apply")
}

// writeAll changes all files together.
func (p *patcher) writeAll() error {
	var changes []workspace.Change
	for _, name := range slices.Sorted(maps.Keys(p.states)) {
		s := p.states[name]
		if s.taken != nil {
			if err := s.taken.checkUnchanged(p.call); err != nil {
				return err
			}
		}
		switch {
		case !s.touched || !s.exists && s.taken == nil:
		case s.exists:
			changes = append(changes, workspace.Change{Name: name, Data: []byte(s.text), Mode: s.mode})
		default:
			changes = append(changes, workspace.Change{Name: name, Remove: true})
		}
	}
	return p.call.Root.ReplaceTogether(changes)
}
