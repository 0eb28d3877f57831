package git_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestConformance holds both engines against each other and against the real git, over the rows of scenarios_test.go:
// reading gives equal answers and changes not a byte of the repository; writing gives equal answers and repositories that
// git itself finds equal, bit by bit where ids are concerned. What the native engine cannot do it says (8), and leaves
// the repository as it was.
func TestConformance(t *testing.T) {
	for _, r := range scenarios() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			real := r.on(t, "", nil)
			system := r.on(t, engine.System, real)
			native := r.on(t, engine.Native, real)
			r.readBoth(t, system, native)
			checkStatus(t, system)
			r.write(real)
			theirs := system.writeAll(r)
			want := real.state()
			if got := system.state(); got != want {
				t.Errorf("the system engine leaves another repository than git (-git +engine):\n%s", cmp.Diff(want, got))
			}
			before := withoutObjects(native.listing())
			ours := native.writeAll(r)
			for i, step := range r.steps() {
				if r.refused(step, ours[i]) {
					if got := withoutObjects(native.listing()); i == 0 && got != before {
						t.Errorf("the native engine refused and changed the repository:\n%s", cmp.Diff(before, got))
					}
					return
				}
				sameAnswer(t, step, theirs[i], ours[i])
			}
			if got := native.state(); got != want {
				t.Errorf("the native engine leaves another repository than git (-git +engine):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// on is the row's repository for one engine: built, or as it was built for another.
func (r row) on(t *testing.T, engine string, built *bench) *bench {
	b := newBench(t)
	b.engine = engine
	if built == nil || r.inPlace {
		b.ok(os.Mkdir(filepath.Join(b.dir, "repo"), 0o755))
		r.build(b)
		return b
	}
	b.ok(os.CopyFS(b.dir, os.DirFS(built.dir)))
	_ = rawGit(filepath.Join(b.dir, "repo"), "update-index", "-q", "--refresh").Run() // it tells of files that were edited
	return b
}

// everyRead is what every row is asked.
func everyRead() []step {
	return []step{
		{"git.status", input{}}, {"git.status", input{"untracked": "all", "ignored": true}},
		{"git.status", input{"untracked": "no", "paths": []string{"a", "sub", "dir", "README.md"}}}, {"git.log", input{"format": "full", "stats": true}},
		{"git.rev_parse", input{"refs": []string{"HEAD"}}}, {"git.branch", input{"action": "list", "remote": true}},
		{"git.diff", input{"format": "name-status"}}, {"git.diff", input{"format": "name-status", "staged": true, "paths": []string{"a", "dir"}}},
	}
}

// readBoth asks both engines everything.
func (r row) readBoth(t *testing.T, system, native *bench) {
	t.Helper()
	files := [2]string{system.listing(), native.listing()}
	for _, step := range append(everyRead(), r.reads...) {
		theirs := system.call(step.skill, step.in)
		if theirs.exit == protocol.ExitInternal || theirs.exit == protocol.ExitUnsupported {
			t.Errorf("%s %v = exit %d, %+v", step.skill, step.in, theirs.exit, theirs.result.Error)
		}
		if ours := native.call(step.skill, step.in); !r.refused(step, ours) {
			sameAnswer(t, step, theirs, ours)
		}
	}
	for i, b := range []*bench{system, native} {
		if got := b.listing(); got != files[i] {
			t.Errorf("reading by the %s engine changed files:\n%s", b.engine, cmp.Diff(files[i], got))
		}
	}
}

// refused reports whether the native engine may refuse this, and did: verbs and inputs that it does not know anywhere,
// and those that the row names.
func (r row) refused(s step, o outcome) bool {
	known := slices.Contains([]string{"git.status", "git.add", "git.commit", "git.log", "git.branch", "git.rev_parse"}, s.skill) ||
		s.skill == "git.diff" && s.in["format"] == "name-status" && !strings.Contains(r.unsupported, "git.status")
	span, _ := s.in["range"].(string)
	foreign := !known || s.skill == "git.log" && (s.in["paths"] != nil || strings.Contains(span, "..."))
	for _, revision := range revisions(s.in) {
		foreign = foreign || strings.Contains(revision, "@{")
	}
	return o.exit == protocol.ExitUnsupported && (foreign || r.unsupported == "*" || strings.Contains(r.unsupported, s.skill))
}

func revisions(in input) []string {
	refs, _ := in["refs"].([]string)
	return refs
}

// sameAnswer compares two outcomes but for what engines may word in their own way.
func sameAnswer(t *testing.T, step step, theirs, ours outcome) {
	t.Helper()
	if theirs.exit != ours.exit || theirs.code() != ours.code() {
		t.Errorf("%s %v: system exit %d %+v, native exit %d %+v", step.skill, step.in, theirs.exit, theirs.result.Error, ours.exit, ours.result.Error)
		return
	}
	if theirs.exit != 0 {
		return
	}
	plain := func(o outcome) map[string]any {
		data := o.data(t)
		delete(data, "engine")
		return data
	}
	if diff := cmp.Diff(plain(theirs), plain(ours)); diff != "" {
		t.Errorf("%s %v differs (-system +native):\n%s", step.skill, step.in, diff)
	}
}

// steps are the writes of the row.
func (r row) steps() []step {
	if r.raw != nil {
		return r.writes
	}
	return []step{{"git.add", input{"all": true}}, {"git.commit", input{"message": "everything", "author": ada(), "date": fixedDate}}}
}

// write does the row's writes by the real git.
func (r row) write(b *bench) {
	if r.raw != nil {
		r.raw(b)
		return
	}
	b.git("repo", "add", "-A")
	_ = rawGit(filepath.Join(b.dir, "repo"), "commit", "-q", "-m", "everything").Run() // nothing to commit is a result, too
}

func (b *bench) writeAll(r row) (all []outcome) {
	b.t.Helper()
	for _, step := range r.steps() {
		all = append(all, b.call(step.skill, step.in))
	}
	return all
}

const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// state is the repository as git judges it.
func (b *bench) state() string {
	b.t.Helper()
	dir := filepath.Join(b.dir, "repo")
	var s strings.Builder
	for _, args := range [][]string{
		{"status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignored"}, {"ls-files", "-s", "-v", "-z"},
		{"for-each-ref", "--format=%(refname) %(objectname) %(symref)"}, {"cat-file", "--batch-all-objects", "--batch-check"}, {"fsck", "--strict", "--no-dangling"},
	} {
		out, err := rawGit(dir, args...).CombinedOutput()
		text := strings.ReplaceAll(string(out), b.dir, "WORKSPACE")
		if err != nil {
			text += fmt.Sprintf("(%v)", err)
		}
		text = strings.ReplaceAll(text, emptyTree+" tree 0\n", "") // written by a commit that then finds nothing to do
		fmt.Fprintf(&s, "== %s\n%s\n", strings.Join(args, " "), strings.ReplaceAll(text, "\x00", "\n"))
	}
	gitDir := strings.TrimPrefix(b.git("repo", "rev-parse", "--absolute-git-dir"), b.dir)
	fmt.Fprintf(&s, "== HEAD\n%s\n", b.read(gitDir+"/HEAD"))
	b.reflogs(&s, gitDir)
	for _, pattern := range []string{"*.lock", "refs/heads/*.lock", "objects/tmp_*", "objects/*/tmp_*", "objects/pack/tmp_*", "index.*"} {
		left, err := filepath.Glob(filepath.Join(b.dir, gitDir, pattern))
		b.ok(err)
		for _, name := range left {
			fmt.Fprintf(&s, "left behind: %s\n", strings.TrimPrefix(name, b.dir))
		}
	}
	return s.String()
}

// reflogs shows what reflogs say, but for who did it when.
func (b *bench) reflogs(to *strings.Builder, gitDir string) {
	b.t.Helper()
	logs := os.DirFS(filepath.Join(b.dir, gitDir, "logs"))
	err := fs.WalkDir(logs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(logs, name)
		for line := range strings.Lines(string(data)) {
			entry, message, _ := strings.Cut(line, "\t")
			fmt.Fprintf(to, "%s: %.81s %s", name, entry, strings.ReplaceAll(message, b.dir, "WORKSPACE"))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
}

// listing lists every file of the workspace but the runtime's own, with mode and content.
func (b *bench) listing() string {
	b.t.Helper()
	var s strings.Builder
	err := filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(b.dir, name)
		if err != nil || d.IsDir() && rel == protocol.Dir {
			return cmpOrSkip(err)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type() == fs.ModeSymlink:
			content, err = os.Readlink(name)
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(name)
			content = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		fmt.Fprintf(&s, "%q %v %s\n", rel, info.Mode(), content)
		return err
	})
	b.ok(err)
	return s.String()
}

// withoutObjects leaves the objects of repositories out of a listing: what was stored before a refusal, no one refers to.
func withoutObjects(listing string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(listing, "\n"), func(line string) bool {
		return strings.Contains(line, "/.git/objects/")
	}), "\n")
}

func cmpOrSkip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}

// checkStatus compares git.status with what git says in its older format, read here in another way.
func checkStatus(t *testing.T, b *bench) {
	t.Helper()
	type entry struct{ Index, Worktree string }
	want, got := map[string]entry{}, map[string]entry{}
	out, err := rawGit(filepath.Join(b.dir, "repo"), "-c", "status.renames=false", "status", "--porcelain", "-z", "--untracked-files=all", "--ignored=traditional").Output()
	b.ok(err)
	for record := range bytes.SplitSeq(out, []byte{0}) {
		if len(record) > 3 {
			letters := strings.ReplaceAll(string(record[:2]), " ", ".")
			want[strings.ToValidUTF8(string(record[3:]), "\uFFFD")] = entry{letters[:1], letters[1:]}
		}
	}
	data := b.must("git.status", input{"untracked": "all", "ignored": true})
	if data["truncated"] == true {
		return
	}
	for _, v := range data["entries"].([]any) {
		got[at(t, v, "path").(string)] = entry{at(t, v, "index").(string), at(t, v, "worktree").(string)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("git.status differs from git (-git +skill):\n%s", diff)
	}
}
