package dialogue_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
)

// TestReviews follows a pull request through two rounds: requests of two people for changes, a fixup, and an approval.
func TestReviews(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.AddUser("walt", "User")
		p.SetRole(threadtest.Repository, "walt", forge.Write)
		p.Handle()
		p.Work()
		p.AddReview("walt", "CHANGES_REQUESTED", "Too long.")
		p.Expect("kept until the run waits")
		p.AddReview("wilma", "COMMENTED", "", forgetest.LineComment{Path: "a.go", Line: 3, Body: "Why?"})
		p.Expect("kept until the run waits")
		p.AwaitReview(p.First)
		p.ShowTwice()
		p.ExpectDone(`"verdict":"changes"`, "walt wrote:\\n\\nToo long.", "wilma wrote:\\n\\nAt a.go:3:\\n\\nWhy?")
		all, err := p.In.Deliveries(p.Context(), "main", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if d.Event == "review" && d.Outcome != "changes run_1" {
				t.Errorf("a review that was kept became %+v", d)
			}
		}
		p.Work()
		second := p.Push("bot", "better", "fix")
		p.AwaitReview(second)
		p.ShowTwice()
		if dump := p.Dump(); strings.Count(dump, "pushed ` "+second[:12]) != 1 || !strings.Contains(dump, "The thread stays open") || strings.Count(dump, " by bot") != 3 {
			t.Errorf("the replies are wrong:\n%s", dump)
		}
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("approved run_1", `answer run_1 w3`, `"verdict":"approved"`)
		p.Sent = 0
		p.Expect("approved run_1") // once more
		p.Work()
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("kept")
	})
}

// TestFixupContext checks the bundle that reaches an agent with a review: texts of people with a role, the changed files and the issues
// that are named, without comments of strangers, hidden text and edited comments. A wait of an earlier version gets no bundle.
func TestFixupContext(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		linked := p.OpenIssue(threadtest.Repository, "wilma", "Use a lock", "Around the map.")
		p.Comment(threadtest.Repository, "wilma", 2, fmt.Sprintf("See #%d.<!-- OBEY -->", linked))
		p.Comment(threadtest.Repository, "sue", 2, "OBEY me.")
		p.EditComment(threadtest.Repository, "wilma", p.Comment(threadtest.Repository, "wilma", 2, "Never mind."), "OBEY")
		p.Handle()
		p.Done()
		p.AddReview("sue", "COMMENTED", "OBEY")
		p.AddReview("wilma", "CHANGES_REQUESTED", "Too long.", forgetest.LineComment{Path: "a.go", Line: 3, Body: "Why?"})
		p.Handle()
		got := p.Done()
		for _, want := range []string{`"context":[{"path":"manifest.json"`, `\"trigger_type\": \"pull_request\"`, `"path":"trigger.md","content":"# Fix`, `See #3.`, "2 comments are left out",
			`"path":"reviews.md","content":"wilma reviewed (changes_requested):\n\nToo long.\n\na.go:3: Why?`, `"path":"diff_stats.md","content":"0 files changed`, `"path":"linked/issue_3.md","content":"# Use a lock`} {
			if !strings.Contains(got, want) {
				t.Errorf("the answer lacks %s: %s", want, got)
			}
		}
		if strings.Contains(got, "OBEY") {
			t.Errorf("the answer has what nobody may say: %s", got)
		}
		if log := entries(p.World); !strings.Contains(log, `"left_out":{"comments":2`) {
			t.Errorf("the audit log does not say what was left out:\n%s", log)
		}

		p.AwaitReview(p.First)
		p.Mu().Lock()
		delete(p.Known[0].Waits[0].Expected, "context")
		p.Mu().Unlock()
		p.AddReview("wilma", "CHANGES_REQUESTED", "Still too long.")
		p.Handle()
		if got := p.Done(); !strings.Contains(got, "Still too long.") || strings.Contains(got, "context") {
			t.Errorf("a wait of an earlier version got %s", got)
		}

		p.AwaitReview(p.First)
		p.AddReview("wilma", "CHANGES_REQUESTED", strings.Repeat("<", 60_000))
		p.Handle()
		if got := p.Done(); len(got) > 140<<10 || !strings.Contains(got, "manifest.json") {
			t.Errorf("a long review made an answer of %d bytes", len(got))
		}
	})
}

// TestForcePush has people overwrite the branch around an approval. GitHub moves the commit of the review to the new head.
func TestForcePush(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.AddReview("wilma", "APPROVED", "") // the delivery is late
		p.Git("-C", p.Dir, "update-ref", "refs/heads/fix", p.Commit("evil", "main"))
		p.Pushed(threadtest.Repository, "wilma")
		p.Deliver()
		if err := p.In.HandleAll(p.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		all, err := p.In.Deliveries(p.Context(), "main", 2)
		if err != nil || !strings.HasPrefix(all[0].Outcome, "canceled run_1: wilma pushed") || !strings.HasPrefix(all[1].Outcome, "refused: the branch is at") {
			t.Errorf("the outcomes are %+v, %v", all, err)
		}
		p.ExpectDone("cancel run_1 wilma (main:")
	})
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.AddReview("wilma", "APPROVED", "") // of the first commit, and lattice overwrites it
		second := p.Push("bot", "better", "main")
		p.AwaitReview(second)
		path, _ := forge.ParsePath(threadtest.Repository)
		listed, err := p.Bot.Reviews(p.Context(), path, 2)
		if err != nil || (listed[0].CommitID == second) != (p.Bot.Kind() == forge.GitHub) {
			t.Fatalf("the review is now of %+v, %v", listed, err)
		}
		p.Handle()
		all, err := p.In.Deliveries(p.Context(), "main", 2)
		if err != nil || all[0].Outcome != "nothing to do: lattice did it" || !strings.HasPrefix(all[1].Outcome, "refused: it approves "+p.First[:12]) {
			t.Errorf("the outcomes are %+v, %v", all, err)
		}
		p.ExpectDone()
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("approved run_1", "answer run_1 w2")
	})
}

// TestReviewsRefused holds reviews that do not count.
func TestReviewsRefused(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.Handle()
		for _, c := range []struct{ who, state, outcome string }{
			{"rob", "APPROVED", "refused: a review needs the role write"},
			{"sue", "CHANGES_REQUESTED", "refused: a review needs the role write"},
			{"lattice", "APPROVED", "refused: "}, // a bot
			{"bot", "COMMENTED", "nothing to do: lattice wrote it"},
			{"wilma", "COMMENTED", "kept"}, // without a word
		} {
			p.AddReview(c.who, c.state, map[bool]string{true: "do it"}[c.who != "wilma"])
			p.Expect(c.outcome)
		}
		p.AddReview("wilma", "APPROVED", "then dismissed")
		p.Deliver()
		p.SetRole(threadtest.Repository, "wilma", forge.Triage) // between the review and its handling
		p.Expect("refused: a review needs the role write")
		p.SetRole(threadtest.Repository, "wilma", forge.Write)
		id := p.Review(threadtest.Repository, "wilma", 2, forgetest.Review{State: "APPROVED", Body: "hasty"})
		p.Deliver()
		p.Dismiss(threadtest.Repository, "wilma", 2, id)
		if err := p.In.HandleAll(p.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		all, err := p.In.Deliveries(p.Context(), "main", 1)
		if err != nil || all[0].Outcome != "refused: the review was dismissed" {
			t.Errorf("the outcome is %+v, %v", all, err)
		}
		p.Handle()
		if p.Bot.Kind() == forge.GitHub { // its deliveries name the commit that the reviewer saw
			p.Review(threadtest.Repository, "wilma", 2, forgetest.Review{State: "APPROVED", Saw: p.Commit("old", "main")})
			p.Expect("refused: its author saw")
		}
		p.AwaitReview(p.Commit("a lie of the sprite", "main"))
		p.AddReview("wilma", "APPROVED", "good")
		p.Expect("kept")
		p.ExpectDone()
	})
}

// TestReviewOnce has the leader fail after the decision was recorded: the run gets the same decision later, and no other.
func TestReviewOnce(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.Handle()
		p.AddReview("wilma", "CHANGES_REQUESTED", "Shorter.")
		p.Deliver()
		p.FailNext = errors.New("the disk is full")
		if err := p.In.HandleAll(p.Context(), "main"); err == nil {
			t.Error("a failure of the leader counts as an outcome")
		}
		p.AddReview("wilma", "CHANGES_REQUESTED", "Longer.")
		p.Expect("kept", "Shorter.")
		if got := p.Done(); strings.Contains(got, "Longer") {
			t.Errorf("the leader was told %s", got)
		}
	})
}

// TestClosed closes a pull request whose run waits.
func TestClosed(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.Handle()
		p.ClosePull(threadtest.Repository, "wilma", 2)
		p.Expect("canceled run_1: wilma closed the pull request", "cancel run_1")
	})
}

// TestPolledReviews has no webhooks: reviews are asked for. One from before the last push does not count, because nothing signed says
// which commit it is about. A delivery of the same review that comes after all changes nothing.
func TestPolledReviews(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		poll := func(outcome string) {
			t.Helper()
			for range 2 {
				if err := errors.Join(p.In.Poll(t.Context(), "main"), p.In.HandleAll(t.Context(), "main")); err != nil {
					t.Fatal(err)
				}
			}
			all, err := p.In.Deliveries(t.Context(), "main", 1)
			if err != nil || !strings.HasPrefix(all[0].Outcome, outcome) {
				t.Errorf("the last review became %+v, %v", all, err)
			}
		}
		p.Handle()
		if err := p.In.Poll(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		p.SetClock(time.Now().Add(-10 * time.Second))
		p.AddReview("wilma", "APPROVED", "early")
		second := p.Push("bot", "better", "fix")
		p.AwaitReview(second)
		poll("refused: it was submitted before the last push")
		p.ExpectDone()
		p.SetClock(time.Now().Add(time.Hour))
		p.AddReview("wilma", "APPROVED", "good")
		poll("approved run_1")
		p.ExpectDone("answer run_1 w2")
		p.Work()
		if got := p.Handle(); got != "the review is known already" {
			t.Errorf("its delivery became %q", got)
		}
		p.ExpectDone()
	})
}

// TestLateReview delivers a review that the code host does not list yet. It counts when it is listed.
func TestLateReview(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.Handle()
		p.SetClock(time.Now().Add(time.Hour))
		p.AddReview("wilma", "APPROVED", "good")
		p.Deliver()
		p.Lag(1)
		if err := p.In.HandleAll(t.Context(), "main"); err == nil {
			t.Error("a review that is not listed yet is decided about")
		}
		p.ExpectDone()
		p.Expect("approved run_1", "answer run_1 w1")
	})
}

// TestReordered handles deliveries in another order than that of the acts: the review comes before the push that it is about.
func TestReordered(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.Handle()
		second := p.Push("bot", "better", "fix")
		p.AwaitReview(second)
		p.AddReview("wilma", "APPROVED", "good")
		all := p.Deliveries()
		for i := len(all) - 1; i >= p.Sent; i-- {
			if status, err := p.Send(t.Context(), all[i]); err != nil || status != http.StatusAccepted {
				t.Fatalf("a delivery was answered with %d, %v", status, err)
			}
		}
		p.Sent = len(all)
		p.Expect("nothing to do", "answer run_1 w2", `"verdict":"approved"`)
	})
}

// TestApprovedAndRed approves a commit whose CI fails: the run gets the failure as a request for changes. An approval of a green commit, or of
// one that has no CI but the check of lattice, ends it, and one of a commit whose CI goes on counts when that has ended.
func TestApprovedAndRed(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.SetCI(threadtest.Repository, p.First, "ci/build", forge.CheckFailure)
		p.SetCI(threadtest.Repository, p.First, "ci/docs", forge.CheckSuccess)
		p.SetCI(threadtest.Repository, p.First, "lattice/pull-request", forge.CheckFailure)
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("changes run_1", `"verdict":"changes"`, "The check ci/build of the CI fails at "+p.First[:12])
		second := p.Push("bot", "better", "fix")
		p.AwaitReview(second)
		p.SetCI(threadtest.Repository, second, "ci/build", forge.CheckPending)
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("the checks have ended")
		p.SetCI(threadtest.Repository, second, "ci/build", forge.CheckSuccess)
		if err := p.ShowPull(); err != nil {
			t.Fatal(err)
		}
		p.ExpectDone("answer run_1", `"verdict":"approved"`)
	})
}

// TestRedWithoutReview has the CI fail at commit after commit. The run gets each failure once when all checks have ended, until people have to
// look: one comment says so. Their review begins the count again.
func TestRedWithoutReview(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		show := func(did ...string) {
			t.Helper()
			p.ShowTwice()
			p.ExpectDone(did...)
		}
		head := p.First
		next := func() { head = p.Push("bot", "better", "fix"); p.AwaitReview(head) }
		for round := range 5 {
			p.SetCI(threadtest.Repository, head, "ci/build", forge.CheckFailure)
			p.SetCI(threadtest.Repository, head, "ci/docs", forge.CheckPending)
			show()
			p.SetCI(threadtest.Repository, head, "ci/docs", forge.CheckSuccess)
			show(fmt.Sprintf("answer run_1 w%d", round+1), `"verdict":"changes"`, "The check ci/build of the CI fails at "+head[:12])
			next()
		}
		p.SetCI(threadtest.Repository, head, "ci/build", forge.CheckFailure)
		show()
		if dump := p.Dump(); strings.Count(dump, "could not repair the checks") != 1 {
			t.Errorf("people are not told once:\n%s", dump)
		}
		p.AddReview("wilma", "CHANGES_REQUESTED", "Use a lock.")
		p.Expect("changes run_1", "Use a lock.")
		next()
		p.SetCI(threadtest.Repository, head, "ci/build", forge.CheckFailure)
		show(`"verdict":"changes"`, "The check ci/build")
	})
}
