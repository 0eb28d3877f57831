package skills

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

func TestCloneOfASeedIsIdempotent(t *testing.T) {
	s := newSprite(t)
	head := s.origin()
	input := `{"url":` + quote(filepath.Join(s.dir, protocol.SeedFile)) + `,"remote_url":"https://example.com/a/b.git"}`
	data := s.must("git.clone", input)
	if data["head"] != head || data["branch"] != "main" || !cmp.Equal(data["remote"], any(map[string]any{"name": "origin", "url": "https://example.com/a/b.git"})) || data["files"] != 1.0 || data["already"] != false {
		t.Errorf("git.clone = %v", data)
	}
	if got := s.read("repo/README.md"); got != "hello\n" {
		t.Errorf("README.md = %q", got)
	}
	if !strings.Contains(s.read("repo/.git/info/exclude"), "/.lattice/*\n") {
		t.Error("the runtime's folder is not excluded")
	}
	if data = s.must("git.clone", input); data["already"] != true {
		t.Errorf("git.clone again = %v, want already", data)
	}
	s.fails("git.clone", `{"url":"origin"}`, 1, "dest_exists")
	if left, _ := filepath.Glob(filepath.Join(s.dir, workspace.TempDir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCloneChecksOut(t *testing.T) {
	s := newSprite(t)
	first := s.origin()
	s.git("origin", "tag", "v1")
	s.write("origin/second", "2")
	s.git("origin", "add", "-A")
	s.git("origin", "commit", "-q", "-m", "second")
	second := s.git("origin", "rev-parse", "HEAD")
	s.git("origin", "branch", "other", "v1")
	s.git("origin", "bundle", "create", filepath.Join(s.dir, "head.bundle"), "HEAD")
	tests := map[string]struct{ input, branch, head string }{
		"path":                 {`{"url":"origin"`, "main", second},
		"depth":                {`{"url":"origin","depth":1`, "main", second},
		"branch":               {`{"url":"origin","branch":"other"`, "other", first},
		"shallow branch":       {`{"url":"origin","branch":"other","depth":1`, "other", first},
		"tag":                  {`{"url":"origin","ref":"v1"`, "", first},
		"commit":               {`{"url":"origin","ref":"` + first + `"`, "", first},
		"branch at commit":     {`{"url":"origin","ref":"` + first + `","branch":"new"`, "new", first},
		"bundle of HEAD alone": {`{"url":"head.bundle","branch":"work"`, "work", second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := s.on(t)
			dest := "clones/" + strings.ReplaceAll(name, " ", "-")
			data := s.must("git.clone", test.input+`,"dest":"`+dest+`"}`)
			if data["branch"] != test.branch || data["head"] != test.head {
				t.Errorf("git.clone %s = %v, want %q at %s", test.input, data, test.branch, test.head)
			}
			if status := s.must("git.status", `{"repo":"`+dest+`"}`); status["clean"] != true {
				t.Errorf("git.status = %v, want clean", status)
			}
		})
	}
	s.fails("git.clone", `{"url":"origin","branch":"nope","dest":"x"}`, 3, "ref_not_found")
	s.fails("git.clone", `{"url":"origin","ref":"nope","dest":"x"}`, 3, "ref_not_found")
	s.fails("git.clone", `{"url":"clones","dest":"x"}`, 3, "not_a_repository")
}

func TestHostileURLsAreRefused(t *testing.T) {
	s := newSprite(t)
	for _, url := range []string{
		"ext::sh -c touch% pwned", "--upload-pack=touch pwned", "-u", "https://a:secret@example.com/x", "https://token@example.com/x",
		"https://example.com/\nx", "http://example.com/x", "ftp://example.com/x", "ssh://-oProxyCommand=x/y", "fd::17", "/etc", "file:///etc",
	} {
		o := s.call("git.clone", `{"url":`+quote(url)+`}`)
		if o.exit != protocol.ExitUnsafe {
			t.Errorf("git.clone of %q = exit %d, %s, want 7", url, o.exit, o.stdout)
		}
	}
	s.fails("git.clone", `{"url":"https://example.com/x","branch":"--upload-pack=x"}`, 7, "unsafe")
	s.fails("git.clone", `{"url":"https://example.com/x","ref":"a..b"}`, 7, "unsafe")
	if _, err := os.Stat(filepath.Join(s.dir, "pwned")); err == nil {
		t.Error("a program was run")
	}
}

func TestStatusAddCommit(t *testing.T) {
	s := newSprite(t)
	head := s.origin()
	s.must("git.clone", `{"url":"origin"}`)
	s.write("repo/README.md", "changed\n")
	s.write("repo/-f with space", "new\n")
	status := s.must("git.status", `{}`)
	if status["state"] != "dirty" || status["branch"] != "main" || status["upstream"] != "origin/main" || len(status["entries"].([]any)) != 2 {
		t.Errorf("git.status = %v", status)
	}
	s.fails("git.commit", `{"message":"x"}`, 1, "nothing_to_commit")
	s.fails("git.add", `{}`, 2, "bad_input")
	s.fails("git.add", `{"paths":["../origin"]}`, 7, "unsafe_path")
	s.fails("git.add", `{"paths":[".git/config"]}`, 7, "unsafe_path")
	s.fails("git.add", `{"paths":["nope"]}`, 3, "not_found")
	if data := s.must("git.add", `{"paths":["-f with space"]}`); data["count"] != 1.0 {
		t.Errorf("git.add = %v", data)
	}
	s.env.IdempotencyKey = "key-1"
	input := `{"message":"second","all":true,"author":{"name":"Ada","email":"ada@example.com"},"date":"2026-01-31T12:00:00Z","trailers":{"Reviewed-by":"Bob"}}`
	data := s.must("git.commit", input)
	if data["files_changed"] != 2.0 || data["additions"] != 2.0 || data["deletions"] != 1.0 || data["parents"].([]any)[0] != head {
		t.Errorf("git.commit = %v", data)
	}
	want := "Ada <ada@example.com> 2026-01-31T12:00:00+00:00\nsecond\n\nReviewed-by: Bob\nLattice-Key: key-1"
	if got := s.git("repo", "show", "-s", "--format=%an <%ae> %aI%n%B"); got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	if again := s.must("git.commit", input); again["already"] != true || again["commit"] != data["commit"] {
		t.Errorf("git.commit again = %v, want the same commit", again)
	}
	s.env.IdempotencyKey = ""
	s.fails("git.commit", `{"message":"x","allow_empty":true,"expect_head":"`+head+`"}`, 1, "head_moved")
	o := s.call("git.commit", `{"message":"empty","allow_empty":true}`)
	if o.exit != 0 || len(o.result.Warnings) == 0 || o.result.Warnings[0].Code != "default_identity" {
		t.Errorf("git.commit without an author = %s, want a warning", o.stdout)
	}
	s.git("repo", "fsck", "--strict")
}

// Whatever a killed writer left, on this file system or beside a file on another, nobody lists, shows or commits it.
func TestLeftoversOfKilledWritersAreInvisible(t *testing.T) {
	s := newSprite(t)
	s.git(".", "init", "-q", "-b", "main") // the workspace itself is the repository
	s.write("a", "1")
	s.write(workspace.TempDir+"/killed", "half")
	s.write(".lattice-tmp-killed", "half")
	s.write("sub/.lattice-tmp-killed/x", "half")
	s.write("sub/b", "2")
	status := s.must("git.status", `{"repo":".","untracked":"all"}`)
	var shown []string
	for _, e := range status["entries"].([]any) {
		shown = append(shown, e.(map[string]any)["path"].(string))
	}
	if got := strings.Join(shown, " "); got != "a sub/b" {
		t.Errorf("git.status shows %s", got)
	}
	s.must("git.commit", `{"repo":".","message":"m","all":true}`)
	if got := s.git(".", "ls-files"); got != "a\nsub/b" {
		t.Errorf("committed: %q", got)
	}
	list := s.must("fs.list", `{"recursive":true}`)
	for _, e := range list["entries"].([]any) {
		if name := e.(map[string]any)["path"].(string); strings.Contains(name, "lattice") {
			t.Errorf("fs.list shows %s", name)
		}
	}
}

func TestNotARepository(t *testing.T) {
	s := newSprite(t)
	s.origin()
	s.write("origin/sub/x", "")
	for _, repo := range []string{"nope", ".", "origin/sub"} {
		s.fails("git.status", `{"repo":"`+repo+`"}`, 3, "not_a_repository")
	}
	s.env.Child = []string{"PATH=/nonexistent"}
	s.fails("git.status", `{"repo":"origin","engine":"system"}`, 8, "unsupported")
	if status := s.must("git.status", `{"repo":"origin"}`); status["engine"] != "native" {
		t.Errorf("git.status without git = %v, want the native engine", status)
	}
}

func TestHostileRepositoriesRunNothing(t *testing.T) {
	s := newSprite(t)
	s.origin()
	s.must("git.clone", `{"url":"origin"}`)
	pwn := "touch " + filepath.Join(s.dir, "pwned") + "; cat"
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "reference-transaction", "post-index-change", "fsmonitor-watchman"} {
		s.write("repo/.git/hooks/"+hook, "#!/bin/sh\n"+pwn+"\n")
	}
	s.git("repo", "config", "core.hooksPath", ".git/hooks")
	s.git("repo", "config", "core.fsmonitor", pwn)
	s.git("repo", "config", "core.editor", pwn)
	s.git("repo", "config", "gpg.program", pwn)
	s.git("repo", "config", "commit.gpgSign", "true")
	s.write("repo/.gitattributes", "* filter=evil diff=evil\n")
	s.must("git.status", `{}`)
	s.must("git.commit", `{"message":"x","all":true}`)
	for _, key := range []string{"filter.evil.clean", "filter.a.b.smudge", "diff.evil.textconv", "merge.evil.driver", "include.path", "remote.origin.uploadpack"} {
		s.git("repo", "config", key, pwn)
		for _, name := range []string{"git.status", "git.add", "git.commit", "git.push"} {
			s.fails(name, map[string]string{"git.add": `{"all":true}`, "git.commit": `{"message":"x"}`}[name], 7, "unsafe_config")
		}
		s.git("repo", "config", "--unset-all", key)
	}
	s.git("repo", "config", "filter.other.clean", pwn)
	s.must("git.status", `{"trust_repo_config":true}`)
	if _, err := os.Stat(filepath.Join(s.dir, "pwned")); err == nil {
		t.Error("a program of the repository was run")
	}
	outside := t.TempDir()
	if err := os.Rename(filepath.Join(s.dir, "repo/.git"), filepath.Join(outside, "git")); err != nil {
		t.Fatal(err)
	}
	s.write("repo/.git", "gitdir: "+filepath.Join(outside, "git")+"\n")
	s.fails("git.status", `{}`, 7, "unsafe_path")
	if err := os.Symlink(outside, filepath.Join(s.dir, "linked")); err != nil {
		t.Fatal(err)
	}
	s.fails("git.status", `{"repo":"linked"}`, 7, "unsafe_path")
}

func TestALockedRepositoryIsBusy(t *testing.T) {
	s := newSprite(t)
	s.origin()
	owner, err := os.Create(filepath.Join(s.dir, "origin/.git/index.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	s.write("origin/x", "")
	if fault := s.fails("git.add", `{"repo":"origin","all":true}`, 6, "busy"); !fault.Retryable {
		t.Error("busy is not retryable")
	}
}

// asked is the PUSH_BRANCH that a call asked for.
func asked(t *testing.T, o outcome) protocol.PushBranch {
	t.Helper()
	var push protocol.PushBranch
	for _, e := range o.events {
		if e.Type == protocol.TypeActionRequest {
			var request protocol.ActionRequest
			if err := json.Unmarshal(e.Payload, &request); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(request.Parameters, &push); err != nil {
				t.Fatal(err)
			}
		}
	}
	return push
}

func TestPushAsksWithABundle(t *testing.T) {
	s := newSprite(t)
	base := s.origin()
	s.must("git.clone", `{"url":"origin"}`)
	s.fails("git.push", `{}`, 1, "nothing_to_push")
	s.write("repo/new", "x")
	commit := s.must("git.commit", `{"message":"new file","all":true}`)["commit"].(string)
	for _, input := range []string{`{"branch":"work"}`, `{"branch":"work","base":"main"}`} {
		s.env.CallID = "c" + quote(len(input))
		o := s.call("git.push", input)
		// Without a checkpoint service the orchestrator takes the checkpoint after exit 75.
		if o.exit != protocol.ExitWaiting || o.result.Waiting == nil {
			t.Fatalf("git.push = exit %d, %s, want 75", o.exit, o.stdout)
		}
		push := asked(t, o)
		if push.Branch != "work" || push.Base != base || push.Head != commit || push.Title != "new file" || len(push.SHA256) != 64 {
			t.Errorf("asked for %+v", push)
		}
		s.git("origin", "fetch", "-q", push.Bundle, "HEAD:refs/heads/got")
		if got := s.git("origin", "rev-parse", "got"); got != commit {
			t.Errorf("the bundle holds %s, want %s", got, commit)
		}
	}
	s.env.CallID = ""
	s.git("repo", "checkout", "-q", "--orphan", "stranger")
	s.must("git.commit", `{"message":"unrelated"}`)
	s.fails("git.push", `{"base":"main"}`, 1, "base_not_ancestor")
	s.fails("git.push", `{"branch":"-x"}`, 7, "unsafe")
	s.fails("git.push", `{"base":"nope"}`, 3, "ref_not_found")
	s.fails("git.push", `{"mode":"direct"}`, 4, "permission_denied")
}

// Further repositories of the workspace are pushed with the first: one request, a bundle of each.
func TestPushAsksForSeveralRepositories(t *testing.T) {
	s := newSprite(t)
	base := s.origin()
	for _, dest := range []string{"repo", "lib"} {
		s.must("git.clone", `{"url":"origin","dest":"`+dest+`"}`)
		s.write(dest+"/new", dest)
		s.must("git.commit", `{"repo":"`+dest+`","message":"new file","all":true}`)
	}
	s.fails("git.push", `{"branch":"work","also":[{}]}`, 2, "bad_input")
	s.fails("git.push", `{"branch":"work","also":[{"repo":"lib"}]}`, 2, "bad_input") // it was cloned from a folder here
	s.env.CallID = "c1"
	s.git("lib", "remote", "set-url", "origin", "https://example.com/acme/lib.git")
	const input = `{"branch":"work","also":[{"repo":"lib","branch":"work2"}]}`
	o := s.call("git.push", input)
	if o.exit != protocol.ExitWaiting {
		t.Fatalf("git.push = exit %d, %s, want 75", o.exit, o.stdout)
	}
	also := asked(t, o).Also
	if len(also) != 1 || also[0].Repo != "https://example.com/acme/lib.git" || also[0].Branch != "work2" || also[0].Base != base || also[0].Head != s.git("lib", "rev-parse", "HEAD") {
		t.Fatalf("asked for %+v", also)
	}
	s.git("origin", "bundle", "verify", "-q", also[0].Bundle)
	s.write(protocol.ResumeFile, quote(protocol.Resume{
		WorkItemID: "w1", CheckpointID: o.result.Waiting.CheckpointID, Context: protocol.ResumeContext{RunID: "r1", CallID: "c1"},
		Inputs: json.RawMessage(`{"ok":true,"action":"PUSH_BRANCH","result":{"url":"https://example.com/acme/site","also":[{"url":"https://example.com/acme/lib","branch":"work2","head":"x"}]}}`),
	}))
	if pushed := s.must("git.push", input)["pushed"].([]any); len(pushed) != 2 || pushed[1].(map[string]any)["ref"] != "refs/heads/work2" {
		t.Errorf("pushed %v", pushed)
	}
}

// TestPushTellsWhatWasPushed checks that a push which was made is told as it was made, whatever happened in the repository since.
func TestPushTellsWhatWasPushed(t *testing.T) {
	for name, change := range map[string]func(s *sprite){
		"nothing":         func(*sprite) {},
		"another commit":  func(s *sprite) { s.git("repo", "commit", "-q", "--allow-empty", "-m", "next") },
		"the push itself": func(s *sprite) { s.git("repo", "update-ref", "refs/remotes/origin/main", "HEAD") },
		"a base of others": func(s *sprite) {
			s.git("repo", "update-ref", "refs/remotes/origin/main", s.git("repo", "commit-tree", "-m", "other", "HEAD^{tree}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			s.origin()
			s.must("git.clone", `{"url":"origin"}`)
			s.write("repo/new", "x")
			commit := s.must("git.commit", `{"message":"new file","all":true}`)["commit"].(string)
			s.env.CallID = "call-1"
			waiting := s.call("git.push", `{"branch":"work"}`)
			if waiting.exit != protocol.ExitWaiting {
				t.Fatalf("git.push = %s", waiting.stdout)
			}
			change(s)
			s.write(protocol.ResumeFile, quote(protocol.Resume{
				WorkItemID: "w1", CheckpointID: waiting.result.Waiting.CheckpointID, Context: protocol.ResumeContext{RunID: "r1", CallID: "call-1"},
				Inputs: json.RawMessage(`{"ok":true,"action":"PUSH_BRANCH","result":{"branch":"work","head":"` + commit + `","status":"ok"}}`),
			}))
			data := s.must("git.push", `{"branch":"work"}`)
			if pushed := data["pushed"].([]any)[0].(map[string]any); pushed["new"] != commit || data["head"] != commit || data["branch"] != "work" {
				t.Errorf("git.push = %v, want the commit %s", data, commit)
			}
		})
	}
}

func TestPushEndsWithTheAnswer(t *testing.T) {
	tests := map[string]struct {
		answer string
		code   string // "" is success
	}{
		"pushed":   {`{"ok":true,"action":"PUSH_BRANCH","result":{"url":"https://example.com/tree/work","status":"ok"}}`, ""},
		"stale":    {`{"ok":false,"error":{"code":"stale","message":"the branch moved"}}`, "stale"},
		"rejected": {`{"approved":false,"comments":"no"}`, "rejected"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			s.origin()
			s.must("git.clone", `{"url":"origin"}`)
			s.write("repo/new", "x")
			commit := s.must("git.commit", `{"message":"new file","all":true}`)["commit"]
			s.env.CallID = "call-1"
			waiting := s.call("git.push", `{"branch":"work"}`)
			if waiting.exit != protocol.ExitWaiting {
				t.Fatalf("git.push = %s", waiting.stdout)
			}
			s.write(protocol.ResumeFile, quote(protocol.Resume{
				WorkItemID: "w1", CheckpointID: waiting.result.Waiting.CheckpointID, Inputs: json.RawMessage(test.answer),
				Context: protocol.ResumeContext{RunID: "r1", CallID: "call-1"},
			}))
			if test.code != "" {
				s.fails("git.push", `{"branch":"work"}`, 1, test.code)
				return
			}
			data := s.must("git.push", `{"branch":"work"}`)
			pushed := data["pushed"].([]any)[0].(map[string]any)
			if pushed["ref"] != "refs/heads/work" || pushed["new"] != commit || pushed["status"] != "ok" || data["url"] != "https://example.com/tree/work" {
				t.Errorf("git.push = %v", data)
			}
		})
	}
}

func TestDirectPushReachesALocalRemote(t *testing.T) {
	s := newSprite(t)
	s.origin()
	s.git(".", "clone", "-q", "--bare", "origin", "bare.git")
	s.must("git.clone", `{"url":"bare.git"}`)
	s.write("repo/new", "x")
	commit := s.must("git.commit", `{"message":"new file","all":true}`)["commit"]
	s.env.Grants = skill.Grants{All: true}
	data := s.must("git.push", `{"branch":"work","mode":"direct","expect_remote":"0"}`)
	if got := s.git("bare.git", "rev-parse", "work"); got != commit {
		t.Errorf("the remote has %s, want %s: %v", got, commit, data)
	}
	s.must("git.push", `{"branch":"work","mode":"direct","expect_remote":"0"}`) // already there
	s.must("git.commit", `{"message":"more","allow_empty":true}`)
	s.fails("git.push", `{"branch":"work","mode":"direct","expect_remote":"0"}`, 1, "stale")
	s.git("repo", "config", "url.ext::sh.insteadOf", "x")
	s.fails("git.push", `{"branch":"work","mode":"direct"}`, 7, "unsafe_config")
}

// Files below .git decide how long a line is that git prints. A line without end is refused, and git is not said to have failed.
func TestLinesWithoutEnd(t *testing.T) {
	s := newSprite(t)
	s.write("repo/a", "x")
	s.git("repo", "init", "-q", "-b", "main")
	s.git("repo", "add", "a")
	s.git("repo", "commit", "-q", "-m", "first")
	s.git("repo", "worktree", "add", "-q", "../linked", "-b", "linked")
	s.write("repo/.git/worktrees/linked/locked", strings.Repeat("because ", 200_000))
	s.fails("git.worktree", `{}`, protocol.ExitLimit, "too_much_output")
	s.write("repo/.git/packed-refs", s.git("repo", "rev-parse", "HEAD")+" refs/heads/"+strings.Repeat("b", 2<<20)+"\n")
	s.fails("git.branch", `{}`, protocol.ExitLimit, "too_much_output")
}

// A repository is full of files that anybody in the sprite can replace: none of them blocks a call, fills the memory or
// leads a write out of the workspace.
func TestPlantedRepositoryFiles(t *testing.T) {
	fifo := func(file string) error { return syscall.Mkfifo(file, 0o644) }
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, file string
		plant      func(file string) error
		exit       int
		code       string
	}{
		{"a FIFO for .git", ".git", fifo, protocol.ExitUnsafe, "unsafe_path"},
		{"a FIFO for commondir", ".git/commondir", fifo, protocol.ExitUnsafe, "unsafe_path"},
		{"a FIFO for exclude", ".git/info/exclude", fifo, protocol.ExitUnsafe, "unsafe_path"},
		{"a link for exclude", ".git/info/exclude", func(file string) error { return os.Symlink(outside, file) }, protocol.ExitUnsafe, "unsafe_path"},
		{"a huge .git", ".git", func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, 1<<40)) }, protocol.ExitLimit, "too_large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSprite(t)
			s.write("repo/a", "x")
			s.git("repo", "init", "-q", "-b", "main")
			file := filepath.Join(s.dir, "repo", tc.file)
			if err := errors.Join(os.RemoveAll(file), tc.plant(file)); err != nil {
				t.Fatal(err)
			}
			if fault := s.fails("git.add", `{"all":true}`, tc.exit, tc.code); fault.Hint == "" {
				t.Errorf("no hint: %s", fault.Message)
			}
		})
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "mine\n" {
		t.Errorf("what lies outside holds %q, %v", data, err)
	}
}
