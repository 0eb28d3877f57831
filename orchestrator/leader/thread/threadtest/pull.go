package threadtest

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// PullWorld is a world with a pull request of lattice, number 2, whose run waits for a review.
type PullWorld struct {
	*World
	Dir   string // of the bare repository
	First string // the commit that lattice pushed first
	wait  int
}

// NewPullWorld adds a pull request to a world.
func NewPullWorld(w *World) *PullWorld {
	p := &PullWorld{World: w, Dir: filepath.Join(w.TempDir(), "code.git")}
	p.Git("init", "-q", "--bare", "-b", "main", p.Dir)
	w.SetDir(Repository, p.Dir)
	p.Git("-C", p.Dir, "update-ref", "refs/heads/main", p.Commit("begin", ""))
	path, _ := forge.ParsePath(Repository)
	p.First = p.Commit("fix", "main")
	p.Git("-C", p.Dir, "update-ref", "refs/heads/fix", p.First)
	opened, err := w.Bot.OpenPull(w.Context(), path, forge.NewPull{Title: "Fix", Head: "fix", Base: "main"})
	if err != nil || opened.Number != 2 {
		w.Fatalf("opened %+v, %v", opened, err)
	}
	p.addEntry(audit.Pull, "pull:main:acme/site#2", map[string]any{"run_id": "run_1"})
	p.RecordAction("OPEN_PR", p.First, 2)
	p.AwaitReview(p.First)
	return p
}

// Git runs git and returns its output.
func (p *PullWorld) Git(args ...string) string { return p.GitWith("", args...) }

// GitWith runs git with an input and returns its output.
func (p *PullWorld) GitWith(input string, args ...string) string {
	p.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// Commit makes an empty commit on a branch, "" for none, and returns it.
func (p *PullWorld) Commit(subject, on string) string {
	tree := p.Git("-C", p.Dir, "hash-object", "-w", "-t", "tree", "/dev/null")
	args := []string{"-C", p.Dir, "commit-tree", tree, "-m", subject}
	if on != "" {
		args = append(args, "-p", p.Git("-C", p.Dir, "rev-parse", on))
	}
	return p.Git(args...)
}

func (p *PullWorld) addEntry(kind audit.Kind, subject string, body any) {
	p.Helper()
	if err := p.Record(p.Context(), kind, subject, "", body); err != nil {
		p.Fatal(err)
	}
}

// RecordAction records an action of the run that pushed a commit.
func (p *PullWorld) RecordAction(action, head string, number int) {
	place := map[string]any{"forge": "main", "path": map[string]string{"owner": "acme", "name": "site"}, "repository_id": 1, "default_branch": "main"}
	p.addEntry(audit.ActionPerformed, audit.Run("run_1"), map[string]any{
		"action": action, "of": head, "binding": map[string]any{"remote": "r", "branch": "fix", "place": place},
		"result": map[string]any{"status": "opened", "number": number, "branch": "fix", "head": head},
	})
}

// Push pushes a commit to the branch as a user; lattice records its own.
func (p *PullWorld) Push(login, subject, on string) string {
	head := p.Commit(subject, on)
	p.Git("-C", p.Dir, "update-ref", "refs/heads/fix", head)
	if login == "bot" {
		p.RecordAction("PUSH_BRANCH", head, 0)
	}
	p.Pushed(Repository, login)
	return head
}

// AwaitReview has the run wait for the review of a commit.
func (p *PullWorld) AwaitReview(head string) {
	p.wait++
	details, _ := json.Marshal(map[string]any{"review": map[string]any{"number": 2, "head": head, "said": "I did it."}})
	p.Mu().Lock()
	defer p.Mu().Unlock()
	p.Known = []api.RunView{{RunID: "run_1", WorkItem: "w", Status: lattice.Waiting, Waits: []lattice.Wait{
		{ID: "w" + string(rune('0'+p.wait)), Kind: lattice.WaitHuman, Details: details, Expected: map[string]string{"verdict": "string", "feedback": "string", "context": "array<map>"}}}}}
}

// Work has the run work.
func (p *PullWorld) Work() {
	p.Mu().Lock()
	defer p.Mu().Unlock()
	p.Known = []api.RunView{{RunID: "run_1", WorkItem: "w", Status: lattice.Running}}
}

// ShowPull has a scribe that knows only the audit log show the pull request.
func (p *PullWorld) ShowPull() error {
	return p.NewScribe().Show(p.Context(), thread.Thread{Host: "main", Repo: forge.Path{Owner: "acme", Name: "site"}, Number: 2})
}

// ShowTwice does so twice: the second time, nothing is new.
func (p *PullWorld) ShowTwice() {
	p.Helper()
	if err := errors.Join(p.ShowPull(), p.ShowPull()); err != nil {
		p.Fatal(err)
	}
}

// AddReview reviews the pull request.
func (p *PullWorld) AddReview(login, state, body string, comments ...forgetest.LineComment) {
	p.Review(Repository, login, 2, forgetest.Review{State: state, Body: body, Comments: comments})
}

// Expect requires the outcome of the last delivery, and the calls to the leader.
func (p *PullWorld) Expect(outcome string, did ...string) {
	p.Helper()
	if got := p.Handle(); !strings.Contains(got, outcome) {
		p.Errorf("the outcome is %q, not %q", got, outcome)
	}
	p.ExpectDone(did...)
}

// ExpectDone requires that each text is in the calls to the leader since the last time, and without texts that there are none.
func (p *PullWorld) ExpectDone(did ...string) {
	p.Helper()
	got := p.Done()
	if len(did) == 0 && got != "" {
		p.Errorf("the leader was told: %s", got)
	}
	for _, want := range did {
		if !strings.Contains(got, want) {
			p.Errorf("the leader was not told %q but: %s", want, got)
		}
	}
}

// EachPull runs a test with a pull request of each kind of code host.
func EachPull(t *testing.T, test func(p *PullWorld)) {
	EachKind(t, func(w *World) { test(NewPullWorld(w)) })
}
