package native

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// merged gives a bench a history with branches, merges that took one side or both, and dates that do not rise with it.
func merged(b *bench) {
	b.Helper()
	at := 1700000000
	commit := func(step int, message string) {
		b.Helper()
		at += step
		date := fmt.Sprintf("%d +0200", at)
		b.git("add", "-A")
		if out, err := tryGitEnv(b.dir, []string{"GIT_COMMITTER_DATE=" + date, "GIT_AUTHOR_DATE=" + date}, "commit", "-q", "--allow-empty", "-m", message); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	merge := func(args ...string) {
		b.Helper()
		at += 60
		date := fmt.Sprintf("%d +0000", at)
		if out, err := tryGitEnv(b.dir, []string{"GIT_COMMITTER_DATE=" + date, "GIT_AUTHOR_DATE=" + date}, append([]string{"merge", "-q", "--no-ff", "--no-edit"}, args...)...); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	b.write("a", "1\n")
	b.write("d/b", "1\n")
	commit(0, "first\n\nwith a body\nof two lines")
	b.git("tag", "-a", "v1", "-m", "one")
	b.git("checkout", "-q", "-b", "side")
	b.write("d/b", "2\n")
	commit(60, "side: change b")
	b.write("c", "1\n")
	commit(-600, "side: add c, in the past")
	b.git("checkout", "-q", "main")
	b.write("a", "2\n")
	commit(900, "main: change a\nin two lines")
	merge("side")
	b.git("checkout", "-q", "-b", "same", "main~1")
	b.write("d/b", "2\n")
	commit(60, "same: the same change of b")
	b.git("checkout", "-q", "main")
	merge("same")
	b.write("a", "3\n")
	commit(0, "main: at the same second")
	b.git("tag", "light")
	b.git("mv", "d/b", "d/e")
	commit(60, "main: move")
}

func TestLogIsGitsOwn(t *testing.T) {
	ctx := context.Background()
	b := newBench(t)
	merged(b)
	system, native := b.system(), b.native()
	defer native.Close()
	since := time.Unix(1700000100, 0)
	for name, spec := range map[string]engine.LogSpec{
		"all":                  {Max: 50},
		"page":                 {Max: 3, Skip: 2},
		"stats":                {Max: 50, Stats: true},
		"short":                {Max: 50, Short: true},
		"first parent":         {Max: 50, FirstParent: true, Stats: true},
		"range":                {Max: 50, Revisions: []string{"side..main"}},
		"range from the front": {Max: 50, Revisions: []string{"v1.."}},
		"without":              {Max: 50, Revisions: []string{"main", "^same"}},
		"symmetric":            {Max: 50, Revisions: []string{"side...same"}},
		"several":              {Max: 50, Revisions: []string{"side", "same"}},
		"path":                 {Max: 50, Paths: []string{"d/b"}},
		"path that was merged": {Max: 50, Paths: []string{"c"}, Stats: true},
		"folder":               {Max: 50, Paths: []string{"d"}},
		"two paths":            {Max: 50, Paths: []string{"a", "c"}},
		"path in a range":      {Max: 50, Paths: []string{"d/b", "a"}, Revisions: []string{"v1..main"}},
		"path, first parent":   {Max: 50, Paths: []string{"d/b"}, FirstParent: true},
		"no such path":         {Max: 50, Paths: []string{"nope"}},
		"since":                {Max: 50, Since: since},
		"until":                {Max: 50, Until: since},
		"author":               {Max: 50, Author: "ADA <ada@"},
		"nobody":               {Max: 50, Author: "bob"},
		"grep":                 {Max: 2, Grep: "MAIN: "},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := system.Log(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := native.Log(ctx, spec)
			if len(spec.Paths) > 0 || name == "symmetric" {
				if exitOf(err) != protocol.ExitUnsupported {
					t.Errorf("log = %v, want unsupported", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(engine.Stats{})); diff != "" {
				t.Errorf("(-git +native):\n%s", diff)
			}
		})
	}
	if _, err := native.Log(ctx, engine.LogSpec{Max: 1, Revisions: []string{"nope"}}); code(err) != "ref_not_found" {
		t.Errorf("log of nothing = %v", err)
	}
}

func TestRevisionsAreGitsOwn(t *testing.T) {
	ctx := context.Background()
	b := newBench(t)
	merged(b)
	b.git("remote", "add", "origin", b.dir)
	b.git("fetch", "-q", "origin")
	b.git("branch", "-q", "-u", "origin/main")
	b.git("remote", "set-head", "origin", "main")
	system, native := b.system(), b.native()
	defer native.Close()
	head, tree := b.git("rev-parse", "HEAD"), b.git("rev-parse", "HEAD^{tree}")
	for _, revision := range []string{
		"HEAD", "@", "main", "heads/main", "refs/heads/main", "v1", "light", "tags/v1", "origin/main", "origin", "origin/HEAD", head, head[:8], strings.ToUpper(head[:8]),
		"HEAD~1", "HEAD~2^2", "HEAD^", "HEAD~0", "HEAD^0", "main^^", "HEAD~100", "HEAD^3", "v1^{}", "v1^{commit}", "v1^{tree}", "HEAD^{tree}", tree, "v1^{tag}", "v1^{blob}", "HEAD^{tag}",
		"HEAD:d", "HEAD:d/e", "HEAD:nope", "v1:a", "HEAD:", "main@{upstream}", "@{u}", "side@{upstream}", "HEAD@{0}", "HEAD@{1}", "@{1}", "main@{2}", "HEAD@{1000}", "nope", "nope~1", "deadbeef", "0000000000000000000000000000000000000000",
		"HEAD~1@{1}", "HEAD^{nope}", "a",
	} {
		want, wantErr := system.Resolve(ctx, revision)
		got, err := native.Resolve(ctx, revision)
		if exitOf(err) == protocol.ExitUnsupported && (strings.Contains(revision, ":") || strings.Contains(strings.ReplaceAll(revision, "@{u", ""), "@{")) {
			continue
		}
		if (err == nil) != (wantErr == nil) || code(err) != code(wantErr) {
			t.Errorf("Resolve(%q) = %+v, %v; git: %+v, %v", revision, got, err, want, wantErr)
		} else if err == nil && got != want {
			t.Errorf("Resolve(%q) = %+v, git: %+v", revision, got, want)
		}
	}
	for _, pair := range [][2]string{{"side", "same"}, {"main", "side"}, {"v1", "main"}, {"main", "v1"}, {"HEAD", "HEAD"}} {
		for _, spec := range []engine.MergeBaseSpec{{Commits: pair[:]}, {Commits: pair[:], All: true}} {
			want, err := system.MergeBase(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := native.MergeBase(ctx, spec)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(engine.Stats{})); diff != "" || err != nil {
				t.Errorf("MergeBase(%+v), %v (-git +native):\n%s", spec, err, diff)
			}
		}
	}
}

// TestBranchesAreGitsOwn lets git and the engine do the same in two copies and compares what comes of it.
func TestBranchesAreGitsOwn(t *testing.T) {
	ctx := context.Background()
	steps := []engine.BranchChange{
		{Action: engine.BranchCreate, Name: "new"},
		{Action: engine.BranchCreate, Name: "new"},
		{Action: engine.BranchCreate, Name: "new/below"},
		{Action: engine.BranchCreate, Name: "at-tag", StartPoint: "v1"},
		{Action: engine.BranchCreate, Name: "alone", StartPoint: "origin/side", NoTrack: true},
		{Action: engine.BranchCreate, Name: "nowhere", StartPoint: "nope"},
	}
	setup := func() *bench {
		b := newBench(t)
		merged(b)
		b.git("remote", "add", "origin", b.dir)
		b.git("fetch", "-q", "origin")
		b.git("branch", "-q", "-u", "origin/same")
		b.git("checkout", "-q", "-b", "unmerged")
		b.git("commit", "-q", "--allow-empty", "-m", "unmerged")
		b.git("checkout", "-q", "main")
		b.git("pack-refs", "--all")
		return b
	}
	theirs, ours := setup(), setup()
	for _, step := range steps {
		want := theirs.system().ChangeBranch(ctx, step)
		got := ours.use(func(r engine.Repo) error { return r.ChangeBranch(ctx, step) })
		if code(want) != code(got) || (want == nil) != (got == nil) {
			t.Errorf("%+v = %v, git: %v", step, got, want)
		}
		state := func(b *bench) string {
			return b.git("for-each-ref", "--format=%(refname) %(objectname) %(upstream)") + "\n" + b.git("symbolic-ref", "HEAD") + "\n" +
				b.git("config", "--get-regexp", "^branch") + "\n" + b.git("reflog", "--format=%gs")
		}
		if diff := cmp.Diff(strings.Split(state(theirs), "\n"), strings.Split(state(ours), "\n")); diff != "" {
			t.Fatalf("after %+v (-git +native):\n%s", step, diff)
		}
		list, err := theirs.system().Branches(ctx, engine.BranchList{Remote: true})
		if err != nil {
			t.Fatal(err)
		}
		var mine []engine.Branch
		ours.must(func(r engine.Repo) error { mine, err = r.Branches(ctx, engine.BranchList{Remote: true}); return err })
		if diff := cmp.Diff(list, mine); diff != "" {
			t.Fatalf("branches after %+v (-git +native):\n%s", step, diff)
		}
	}
	for _, step := range []engine.BranchChange{
		{Action: engine.BranchRename, Name: "new", NewName: "newer"},
		{Action: engine.BranchDelete, Name: "new", Force: true},
		{Action: engine.BranchCreate, Name: "follows", StartPoint: "origin/side"},
		{Action: engine.BranchCreate, Name: "new", StartPoint: "v1", Force: true},
		{Action: engine.BranchCreate, Name: "main", StartPoint: "v1", Force: true},
	} {
		if err := ours.use(func(r engine.Repo) error { return r.ChangeBranch(ctx, step) }); exitOf(err) != protocol.ExitUnsupported {
			t.Errorf("%+v = %v, want unsupported", step, err)
		}
	}
	ours.sound()
}
