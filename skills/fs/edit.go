package fs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spritekit/lattice/skills/unified"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxEdited = 16 << 20 // bytes of a file that is edited or patched
	maxEdits  = 1000
	maxLines  = 20 // line numbers that an edit's result names
)

type editInput struct {
	Path   string        `json:"path"`
	Edits  []replacement `json:"edits"`
	Expect string        `json:"expect_sha256"`
	DryRun bool          `json:"dry_run"`
	Diff   bool          `json:"diff"`
}

type replacement struct {
	Old   string `json:"old"`
	New   string `json:"new"`
	Count int    `json:"count"`
	All   bool   `json:"all"`
}

type editData struct {
	Path    string       `json:"path"`
	Changed bool         `json:"changed"`
	Size    int64        `json:"size"`
	SHA256  string       `json:"sha256"`
	Edits   []editResult `json:"edits"`
	Diff    string       `json:"diff,omitempty"`
}

type editResult struct {
	Replacements int   `json:"replacements"`
	Lines        []int `json:"lines"`
}

// editFile does the work of fs.edit.
func editFile(ctx context.Context, c *skill.Call, in editInput) (*editData, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	rel, err := resolveContent(c, in.Path)
	if err != nil {
		return nil, err
	}
	if _, err := statExpected(ctx, c, rel, in.Expect); err != nil {
		return nil, err
	}
	old, err := readTaken(c, rel)
	if err != nil {
		return nil, err
	}
	if in.Expect != "" && sumOf(old.data) != in.Expect {
		return nil, newChangedError(rel, sumOf(old.data), in.Expect)
	}
	e := editor{text: string(old.data), crlf: isCRLF(old.data)}
	for i, r := range in.Edits {
		if err := e.applyReplacement(fmt.Sprintf("/edits/%d", i), r); err != nil {
			return nil, err
		}
	}
	data := editData{Path: rel, Size: int64(len(e.text)), SHA256: sumOf([]byte(e.text)), Edits: e.results}
	if in.Diff || in.DryRun {
		data.Diff = unified.Diff("a/"+rel, "b/"+rel, string(old.data), e.text)
	}
	if in.DryRun {
		return &data, nil
	}
	if err := old.checkUnchanged(c); err != nil {
		return nil, err
	}
	if err := c.Root.WriteFile(rel, []byte(e.text), 0); err != nil {
		return nil, err
	}
	data.Changed = true
	return &data, emitFile(c, rel, data.SHA256, data.Size)
}

func (in *editInput) validate() error {
	if len(in.Edits) == 0 || len(in.Edits) > maxEdits {
		return skill.BadInput("/edits", "must hold 1 to %d edits", maxEdits)
	}
	for i, r := range in.Edits {
		at := fmt.Sprintf("/edits/%d", i)
		switch {
		case r.Old == "":
			return skill.BadInput(at+"/old", "is empty").WithHint("name the text to replace; fs.append adds at the end, fs.write makes a file")
		case r.Old == r.New:
			return skill.BadInput(at+"/new", "is the same as old")
		case r.Count < 0:
			return skill.BadInput(at+"/count", "is negative")
		case r.Count > 0 && r.All:
			return skill.BadInput(at+"/all", "cannot be used together with count")
		}
	}
	return nil
}

// taken is a file as it was read.
type taken struct {
	rel  string
	data []byte
	info fs.FileInfo
}

// readTaken reads all of a file that is to be changed.
func readTaken(c *skill.Call, rel string) (taken, error) {
	f, err := openFile(c, rel)
	if err != nil {
		return taken{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return taken{}, fmt.Errorf("read %s: %w", rel, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err != nil {
		return taken{}, fmt.Errorf("read %s: %w", rel, err)
	}
	if len(data) > maxEdited {
		return taken{}, fault.Limit("too_large", "%s has more than %d bytes", rel, maxEdited).WithHint("change it with a program of its own, such as sed")
	}
	return taken{rel, data, info}, nil
}

// checkUnchanged refuses if another process has changed the file since it was read. A short race remains before the rename.
func (t taken) checkUnchanged(c *skill.Call) error {
	now, err := c.Root.Stat(t.rel)
	if err == nil && os.SameFile(now, t.info) && now.Size() == t.info.Size() && now.ModTime().Equal(t.info.ModTime()) {
		return nil
	}
	return fault.Failed("changed", "%s was changed by somebody else meanwhile", t.rel).WithHint("read the file again, then decide")
}

// isCRLF reports whether all lines end with CRLF.
func isCRLF(data []byte) bool {
	n := bytes.Count(data, []byte{'\n'})
	return n > 0 && bytes.Count(data, []byte("\r\n")) == n
}

// editor makes replacements one after the other.
type editor struct {
	text    string
	crlf    bool
	results []editResult
}

func (e *editor) applyReplacement(at string, r replacement) error {
	old, new := r.Old, r.New
	n := strings.Count(e.text, old)
	if e.crlf && !strings.Contains(old, "\r") && !strings.Contains(new, "\r") { // the caller sees lines, the file keeps its ends
		old, new = strings.ReplaceAll(old, "\n", "\r\n"), strings.ReplaceAll(new, "\n", "\r\n")
		n = strings.Count(e.text, old)
	}
	switch want := cmp.Or(r.Count, 1); {
	case n == 0:
		return e.explainMissing(at, r.Old)
	case !r.All && n != want:
		places := lineNumbers(e.text, old, 0)
		fault := fault.Failed("ambiguous", "%s/old is in the file %d times, not %d: at lines %s", at, n, want, listPlaces(places, n))
		return fault.WithHint(`name more of the text around it, or the number of places with "count", or all of them with "all":true`).
			WithDetails(map[string]any{"edit": at, "found": n, "lines": places})
	}
	if int64(len(e.text))+int64(n)*int64(len(new)-len(old)) > maxEdited {
		return fault.Limit("too_large", "the file would have more than %d bytes", maxEdited).WithHint("replace less, or with less")
	}
	e.results = append(e.results, editResult{n, lineNumbers(e.text, old, strings.Count(new, "\n")-strings.Count(old, "\n"))})
	e.text = strings.ReplaceAll(e.text, old, new)
	return nil
}

// lineNumbers returns the numbers of the first lines where old begins, each moved by the lines that earlier replacements add.
func lineNumbers(text, old string, added int) []int {
	found := []int{}
	line := 1
	for len(found) < maxLines {
		i := strings.Index(text, old)
		if i < 0 {
			break
		}
		line += strings.Count(text[:i], "\n")
		found = append(found, line+added*len(found))
		line += strings.Count(old, "\n")
		text = text[i+len(old):]
	}
	return found
}

func listPlaces(places []int, n int) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(places), " ", ", "), "[]")
	if n > len(places) {
		text += ", …"
	}
	return text
}

// explainMissing returns the error for a missing text, with the nearest match.
func (e *editor) explainMissing(at, old string) error {
	fault := fault.Failed("no_match", "%s/old is not in the file", at).WithDetails(map[string]any{"edit": at})
	if line := e.nearestLine(old); line > 0 {
		return fault.WithHint("with other white space it is there, at line %d: take the text as fs.read shows it", line)
	}
	return fault.WithHint("take the text as fs.read shows it, with all its white space; edits before this one may have changed it")
}

// nearestLine is the line where old begins when white space does not count, 0 when it is not there either.
func (e *editor) nearestLine(old string) int {
	want := trimLines(old)
	for len(want) > 1 && want[0] == "" {
		want = want[1:]
	}
	for len(want) > 1 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	have := "\n" + strings.Join(trimLines(e.text), "\n") + "\n"
	i := strings.Index(have, "\n"+strings.Join(want, "\n")+"\n") // not line by line: a long old can begin at each line
	return strings.Count(have[:i+1], "\n")
}

// trimLines is the lines of a text with single spaces only.
func trimLines(text string) []string {
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = strings.Join(strings.Fields(line), " ")
	}
	return all
}
