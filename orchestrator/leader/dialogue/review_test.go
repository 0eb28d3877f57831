package dialogue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
)

// pullWorld is a world with a pull request of lattice, number 2, whose run waits for a review.
type pullWorld struct {
	*world
	dir   string // of the bare repository
	wait  int
	first string // the commit that lattice pushed first
}

// newPullWorld adds a pull request to a world.
func newPullWorld(w *world) *pullWorld {
	p := &pullWorld{world: w, dir: filepath.Join(w.TempDir(), "code.git")}
	p.git("init", "-q", "--bare", "-b", "main", p.dir)
	w.SetDir(repository, p.dir)
	p.git("-C", p.dir, "update-ref", "refs/heads/main", p.commit("begin", ""))
	path, _ := forge.ParsePath(repository)
	p.first = p.commit("fix", "main")
	p.git("-C", p.dir, "update-ref", "refs/heads/fix", p.first)
	opened, err := w.bot.OpenPull(w.Context(), path, forge.NewPull{Title: "Fix", Head: "fix", Base: "main"})
	if err != nil || opened.Number != 2 {
		w.Fatalf("opened %+v, %v", opened, err)
	}
	p.record(audit.Pull, "pull:main:acme/site#2", map[string]any{"run_id": "run_1"})
	p.performed("OPEN_PR", p.first, 2)
	p.waits(p.first)
	return p
}

func (p *pullWorld) git(args ...string) string {
	p.Helper()
	out, err := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...).Output()
	if err != nil {
		p.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// commit makes an empty commit on a branch, "" for none, and returns it.
func (p *pullWorld) commit(subject, on string) string {
	tree := p.git("-C", p.dir, "hash-object", "-w", "-t", "tree", "/dev/null")
	args := []string{"-C", p.dir, "commit-tree", tree, "-m", subject}
	if on != "" {
		args = append(args, "-p", p.git("-C", p.dir, "rev-parse", on))
	}
	return p.git(args...)
}

func (p *pullWorld) record(kind audit.Kind, subject string, body any) {
	p.Helper()
	if err := p.Record(p.Context(), kind, subject, "", body); err != nil {
		p.Fatal(err)
	}
}

// performed records an action of the run that pushed a commit.
func (p *pullWorld) performed(action, head string, number int) {
	place := map[string]any{"forge": "main", "path": map[string]string{"owner": "acme", "name": "site"}, "repository_id": 1, "default_branch": "main"}
	p.record(audit.ActionPerformed, audit.Run("run_1"), map[string]any{
		"action": action, "of": head, "binding": map[string]any{"remote": "r", "branch": "fix", "place": place},
		"result": map[string]any{"status": "opened", "number": number, "branch": "fix", "head": head},
	})
}

// push pushes a commit to the branch as a user; lattice records its own.
func (p *pullWorld) push(login, subject, on string) string {
	head := p.commit(subject, on)
	p.git("-C", p.dir, "update-ref", "refs/heads/fix", head)
	if login == "bot" {
		p.performed("PUSH_BRANCH", head, 0)
	}
	p.Pushed(repository, login)
	return head
}

// waits has the run wait for the review of a commit.
func (p *pullWorld) waits(head string) {
	p.wait++
	details, _ := json.Marshal(map[string]any{"review": map[string]any{"number": 2, "head": head, "said": "I did it."}})
	p.mu().Lock()
	defer p.mu().Unlock()
	p.leader.runs = []api.RunView{{RunID: "run_1", WorkItem: "w", Status: lattice.Waiting, Waits: []lattice.Wait{
		{ID: "w" + string(rune('0'+p.wait)), Kind: lattice.WaitHuman, Details: details, Expected: map[string]string{"verdict": "string", "feedback": "string", "context": "array<map>"}}}}}
}

// works has the run work.
func (p *pullWorld) works() {
	p.mu().Lock()
	defer p.mu().Unlock()
	p.leader.runs = []api.RunView{{RunID: "run_1", WorkItem: "w", Status: lattice.Running}}
}

func (p *pullWorld) review(login, state, body string, comments ...forgetest.LineComment) {
	p.Review(repository, login, 2, forgetest.Review{State: state, Body: body, Comments: comments})
}

// expect requires the outcome of the last delivery, and what the leader was told to do.
func (p *pullWorld) expect(outcome string, did ...string) {
	p.Helper()
	if got := p.handle(); !strings.Contains(got, outcome) {
		p.Errorf("the outcome is %q, not %q", got, outcome)
	}
	p.expectDone(did...)
}

func (p *pullWorld) expectDone(did ...string) {
	p.Helper()
	got := p.done()
	if len(did) == 0 && got != "" {
		p.Errorf("the leader was told: %s", got)
	}
	for _, want := range did {
		if !strings.Contains(got, want) {
			p.Errorf("the leader was not told %q but: %s", want, got)
		}
	}
}

func eachPull(t *testing.T, test func(p *pullWorld)) {
	eachKind(t, func(w *world) { test(newPullWorld(w)) })
}

// TestReviews follows a pull request through two rounds: requests of two people for changes, a fixup, and an approval.
func TestReviews(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.AddUser("walt", "User")
		p.SetRole(repository, "walt", forge.Write)
		p.handle()
		p.works()
		p.review("walt", "CHANGES_REQUESTED", "Too long.")
		p.expect("kept until the run waits")
		p.review("wilma", "COMMENTED", "", forgetest.LineComment{Path: "a.go", Line: 3, Body: "Why?"})
		p.expect("kept until the run waits")
		p.waits(p.first)
		s := p.newScribe()
		pull, _ := dialogue.ParseThread("main:acme/site#2")
		for range 2 {
			if err := s.Show(p.Context(), pull); err != nil {
				t.Fatal(err)
			}
		}
		p.expectDone(`"verdict":"changes"`, "walt wrote:\\n\\nToo long.", "wilma wrote:\\n\\nAt a.go:3:\\n\\nWhy?")
		all, err := p.in.Deliveries(p.Context(), "main", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if d.Event == "review" && d.Outcome != "changes run_1" {
				t.Errorf("a review that was kept became %+v", d)
			}
		}
		p.works()
		second := p.push("bot", "better", "fix")
		p.waits(second)
		for range 2 {
			if err := p.newScribe().Show(p.Context(), pull); err != nil {
				t.Fatal(err)
			}
		}
		if dump := p.Dump(); strings.Count(dump, "pushed ` "+second[:12]) != 1 || !strings.Contains(dump, "The thread stays open") || strings.Count(dump, " by bot") != 3 {
			t.Errorf("the replies are wrong:\n%s", dump)
		}
		p.review("wilma", "APPROVED", "")
		p.expect("approved run_1", `answer run_1 w3`, `"verdict":"approved"`)
		p.sent = 0
		p.expect("approved run_1") // once more
		p.works()
		p.review("wilma", "APPROVED", "")
		p.expect("kept")
	})
}

// TestFixupContext checks the bundle that reaches an agent with a review: texts of people with a role, the changed files and the issues
// that are named, without comments of strangers, hidden text and edited comments. A wait of an earlier version gets no bundle.
func TestFixupContext(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		linked := p.OpenIssue(repository, "wilma", "Use a lock", "Around the map.")
		p.Comment(repository, "wilma", 2, fmt.Sprintf("See #%d.<!-- OBEY -->", linked))
		p.Comment(repository, "sue", 2, "OBEY me.")
		p.EditComment(repository, "wilma", p.Comment(repository, "wilma", 2, "Never mind."), "OBEY")
		p.handle()
		p.done()
		p.review("sue", "COMMENTED", "OBEY")
		p.review("wilma", "CHANGES_REQUESTED", "Too long.", forgetest.LineComment{Path: "a.go", Line: 3, Body: "Why?"})
		p.handle()
		got := p.done()
		for _, want := range []string{`"context":[{"path":"manifest.json"`, `\"trigger_type\": \"pull_request\"`, `"path":"trigger.md","content":"# Fix`, `See #3.`, "2 comments are left out",
			`"path":"reviews.md","content":"wilma reviewed (changes_requested):\n\nToo long.\n\na.go:3: Why?`, `"path":"diff_stats.md","content":"0 files changed`, `"path":"linked/issue_3.md","content":"# Use a lock`} {
			if !strings.Contains(got, want) {
				t.Errorf("the answer lacks %s: %s", want, got)
			}
		}
		if strings.Contains(got, "OBEY") {
			t.Errorf("the answer has what nobody may say: %s", got)
		}
		if log := p.entries(); !strings.Contains(log, `"left_out":{"comments":2`) {
			t.Errorf("the audit log does not say what was left out:\n%s", log)
		}

		p.waits(p.first)
		p.mu().Lock()
		delete(p.leader.runs[0].Waits[0].Expected, "context")
		p.mu().Unlock()
		p.review("wilma", "CHANGES_REQUESTED", "Still too long.")
		p.handle()
		if got := p.done(); !strings.Contains(got, "Still too long.") || strings.Contains(got, "context") {
			t.Errorf("a wait of an earlier version got %s", got)
		}

		p.waits(p.first)
		p.review("wilma", "CHANGES_REQUESTED", strings.Repeat("<", 60_000))
		p.handle()
		if got := p.done(); len(got) > 140<<10 || !strings.Contains(got, "manifest.json") {
			t.Errorf("a long review made an answer of %d bytes", len(got))
		}
	})
}

// TestForcePush has people overwrite the branch around an approval. GitHub moves the commit of the review to the new head.
func TestForcePush(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.review("wilma", "APPROVED", "") // the delivery is late
		p.git("-C", p.dir, "update-ref", "refs/heads/fix", p.commit("evil", "main"))
		p.Pushed(repository, "wilma")
		p.deliver()
		if err := p.in.HandleAll(p.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		all, err := p.in.Deliveries(p.Context(), "main", 2)
		if err != nil || !strings.HasPrefix(all[0].Outcome, "canceled run_1: wilma pushed") || !strings.HasPrefix(all[1].Outcome, "refused: the branch is at") {
			t.Errorf("the outcomes are %+v, %v", all, err)
		}
		p.expectDone("cancel run_1 wilma (main:")
	})
	eachPull(t, func(p *pullWorld) {
		p.review("wilma", "APPROVED", "") // of the first commit, and lattice overwrites it
		second := p.push("bot", "better", "main")
		p.waits(second)
		path, _ := forge.ParsePath(repository)
		listed, err := p.bot.Reviews(p.Context(), path, 2)
		if err != nil || (listed[0].CommitID == second) != (p.bot.Kind() == forge.GitHub) {
			t.Fatalf("the review is now of %+v, %v", listed, err)
		}
		p.handle()
		all, err := p.in.Deliveries(p.Context(), "main", 2)
		if err != nil || all[0].Outcome != "nothing to do: lattice did it" || !strings.HasPrefix(all[1].Outcome, "refused: it approves "+p.first[:12]) {
			t.Errorf("the outcomes are %+v, %v", all, err)
		}
		p.expectDone()
		p.review("wilma", "APPROVED", "")
		p.expect("approved run_1", "answer run_1 w2")
	})
}

// TestReviewsRefused holds reviews that do not count.
func TestReviewsRefused(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.handle()
		for _, c := range []struct{ who, state, outcome string }{
			{"rob", "APPROVED", "refused: a review needs the role write"},
			{"sue", "CHANGES_REQUESTED", "refused: a review needs the role write"},
			{"lattice", "APPROVED", "refused: "}, // a bot
			{"bot", "COMMENTED", "nothing to do: lattice wrote it"},
			{"wilma", "COMMENTED", "kept"}, // without a word
		} {
			p.review(c.who, c.state, map[bool]string{true: "do it"}[c.who != "wilma"])
			p.expect(c.outcome)
		}
		p.review("wilma", "APPROVED", "then dismissed")
		p.deliver()
		p.SetRole(repository, "wilma", forge.Triage) // between the review and its handling
		p.expect("refused: a review needs the role write")
		p.SetRole(repository, "wilma", forge.Write)
		id := p.Review(repository, "wilma", 2, forgetest.Review{State: "APPROVED", Body: "hasty"})
		p.deliver()
		p.Dismiss(repository, "wilma", 2, id)
		if err := p.in.HandleAll(p.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		all, err := p.in.Deliveries(p.Context(), "main", 1)
		if err != nil || all[0].Outcome != "refused: the review was dismissed" {
			t.Errorf("the outcome is %+v, %v", all, err)
		}
		p.handle()
		if p.bot.Kind() == forge.GitHub { // its deliveries name the commit that the reviewer saw
			p.Review(repository, "wilma", 2, forgetest.Review{State: "APPROVED", Saw: p.commit("old", "main")})
			p.expect("refused: its author saw")
		}
		p.waits(p.commit("a lie of the sprite", "main"))
		p.review("wilma", "APPROVED", "good")
		p.expect("kept")
		p.expectDone()
	})
}

// TestReviewOnce has the leader fail after the decision was recorded: the run gets the same decision later, and no other.
func TestReviewOnce(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.handle()
		p.review("wilma", "CHANGES_REQUESTED", "Shorter.")
		p.deliver()
		p.fail = errors.New("the disk is full")
		if err := p.in.HandleAll(p.Context(), "main"); err == nil {
			t.Error("a failure of the leader counts as an outcome")
		}
		p.review("wilma", "CHANGES_REQUESTED", "Longer.")
		p.expect("kept", "Shorter.")
		if got := p.done(); strings.Contains(got, "Longer") {
			t.Errorf("the leader was told %s", got)
		}
	})
}

// TestClosed closes a pull request whose run waits.
func TestClosed(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.handle()
		p.ClosePull(repository, "wilma", 2)
		p.expect("canceled run_1: wilma closed the pull request", "cancel run_1")
	})
}

// TestPolledReviews has no webhooks: reviews are asked for. One from before the last push does not count, because nothing signed says
// which commit it is about. A delivery of the same review that comes after all changes nothing.
func TestPolledReviews(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		poll := func(outcome string) {
			t.Helper()
			for range 2 {
				if err := errors.Join(p.in.Poll(t.Context(), "main"), p.in.HandleAll(t.Context(), "main")); err != nil {
					t.Fatal(err)
				}
			}
			all, err := p.in.Deliveries(t.Context(), "main", 1)
			if err != nil || !strings.HasPrefix(all[0].Outcome, outcome) {
				t.Errorf("the last review became %+v, %v", all, err)
			}
		}
		p.handle()
		if err := p.in.Poll(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		p.SetClock(time.Now().Add(-10 * time.Second))
		p.review("wilma", "APPROVED", "early")
		second := p.push("bot", "better", "fix")
		p.waits(second)
		poll("refused: it was submitted before the last push")
		p.expectDone()
		p.SetClock(time.Now().Add(time.Hour))
		p.review("wilma", "APPROVED", "good")
		poll("approved run_1")
		p.expectDone("answer run_1 w2")
		p.works()
		if got := p.handle(); got != "the review is known already" {
			t.Errorf("its delivery became %q", got)
		}
		p.expectDone()
	})
}

// TestLateReview delivers a review that the code host does not list yet. It counts when it is listed.
func TestLateReview(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.handle()
		p.SetClock(time.Now().Add(time.Hour))
		p.review("wilma", "APPROVED", "good")
		p.deliver()
		p.Lag(1)
		if err := p.in.HandleAll(t.Context(), "main"); err == nil {
			t.Error("a review that is not listed yet is decided about")
		}
		p.expectDone()
		p.expect("approved run_1", "answer run_1 w1")
	})
}

// TestReordered handles deliveries in another order than that of the acts: the review comes before the push that it is about.
func TestReordered(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.handle()
		second := p.push("bot", "better", "fix")
		p.waits(second)
		p.review("wilma", "APPROVED", "good")
		all := p.Deliveries()
		for i := len(all) - 1; i >= p.sent; i-- {
			if status, err := p.Send(t.Context(), all[i]); err != nil || status != http.StatusAccepted {
				t.Fatalf("a delivery was answered with %d, %v", status, err)
			}
		}
		p.sent = len(all)
		p.expect("nothing to do", "answer run_1 w2", `"verdict":"approved"`)
	})
}

// TestCheckOfRun shows the state of a run at the commit that it pushed last. A code host that refuses it changes nothing else.
func TestCheckOfRun(t *testing.T) {
	eachKind(t, func(w *world) {
		p := newPullWorld(w)
		w.runs[0].Flow = "pull-request"
		pull, _ := dialogue.ParseThread("main:acme/site#2")
		show := func(want string) {
			t.Helper()
			if err := w.newScribe().Show(t.Context(), pull); err != nil {
				t.Error(err)
			}
			if line := "check " + p.first + " lattice/pull-request " + want + " run=false\n"; strings.Count(w.Dump(), "\ncheck ") != 1 || !strings.Contains(w.Dump(), line) {
				t.Errorf("there is no %q in\n%s", line, w.Dump())
			}
		}
		show("pending")
		w.runs[0].Status, w.runs[0].Waits = lattice.Succeeded, nil
		show("success")
		w.SetRole(repository, "bot", forge.Read)
		w.runs[0].Status = lattice.Failed
		show("success")
	})
}

// TestApprovedAndRed approves a commit whose CI fails: the run gets the failure as a request for changes. An approval of a green commit, or of
// one that has no CI but the check of lattice, ends it, and one of a commit whose CI goes on counts when that has ended.
func TestApprovedAndRed(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.SetCI(repository, p.first, "ci/build", forge.CheckFailure)
		p.SetCI(repository, p.first, "ci/docs", forge.CheckSuccess)
		p.SetCI(repository, p.first, "lattice/pull-request", forge.CheckFailure)
		p.review("wilma", "APPROVED", "")
		p.expect("changes run_1", `"verdict":"changes"`, "The check ci/build of the CI fails at "+p.first[:12])
		second := p.push("bot", "better", "fix")
		p.waits(second)
		p.SetCI(repository, second, "ci/build", forge.CheckPending)
		p.review("wilma", "APPROVED", "")
		p.expect("the checks have ended")
		p.SetCI(repository, second, "ci/build", forge.CheckSuccess)
		pull, _ := dialogue.ParseThread("main:acme/site#2")
		if err := p.newScribe().Show(p.Context(), pull); err != nil {
			t.Fatal(err)
		}
		p.expectDone("answer run_1", `"verdict":"approved"`)
	})
}

// TestRedWithoutReview has the CI fail at commit after commit. The run gets each failure once when all checks have ended, until people have to
// look: one comment says so. Their review begins the count again.
func TestRedWithoutReview(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		pull, _ := dialogue.ParseThread("main:acme/site#2")
		show := func(did ...string) {
			t.Helper()
			for range 2 {
				if err := p.newScribe().Show(t.Context(), pull); err != nil {
					t.Fatal(err)
				}
			}
			p.expectDone(did...)
		}
		head := p.first
		next := func() { head = p.push("bot", "better", "fix"); p.waits(head) }
		for round := range 5 {
			p.SetCI(repository, head, "ci/build", forge.CheckFailure)
			p.SetCI(repository, head, "ci/docs", forge.CheckPending)
			show()
			p.SetCI(repository, head, "ci/docs", forge.CheckSuccess)
			show(fmt.Sprintf("answer run_1 w%d", round+1), `"verdict":"changes"`, "The check ci/build of the CI fails at "+head[:12])
			next()
		}
		p.SetCI(repository, head, "ci/build", forge.CheckFailure)
		show()
		if dump := p.Dump(); strings.Count(dump, "could not repair the checks") != 1 {
			t.Errorf("people are not told once:\n%s", dump)
		}
		p.review("wilma", "CHANGES_REQUESTED", "Use a lock.")
		p.expect("changes run_1", "Use a lock.")
		next()
		p.SetCI(repository, head, "ci/build", forge.CheckFailure)
		show(`"verdict":"changes"`, "The check ci/build")
	})
}

// TestDecidedBeforeReply approves a fixup before lattice has answered the review that asked for it: the answer comes, once.
func TestDecidedBeforeReply(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.review("wilma", "CHANGES_REQUESTED", "Too long.")
		p.expect("changes run_1", `"verdict":"changes"`)
		p.works()
		second := p.push("bot", "better", "fix")
		p.waits(second)
		p.review("wilma", "APPROVED", "")
		p.expect("approved run_1", `"verdict":"approved"`)
		p.works()
		pull, _ := dialogue.ParseThread("main:acme/site#2")
		for range 2 {
			if err := p.newScribe().Show(p.Context(), pull); err != nil {
				t.Fatal(err)
			}
		}
		if dump := p.Dump(); strings.Count(dump, "**lattice** pushed ` "+second[:12]) != 1 {
			t.Errorf("the review is not answered once:\n%s", dump)
		}
	})
}
