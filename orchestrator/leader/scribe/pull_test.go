package scribe_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
)

// pushFile has lattice push a commit in which one file has another text, and the run wait for its review.
func pushFile(p *threadtest.PullWorld, name, text string) {
	p.Helper()
	blob := p.GitWith(text, "-C", p.Dir, "hash-object", "-w", "--stdin")
	var tree strings.Builder
	for line := range strings.Lines(p.Git("-C", p.Dir, "ls-tree", "fix") + "\n") {
		if !strings.HasSuffix(line, "\t"+name+"\n") && line != "\n" {
			tree.WriteString(line)
		}
	}
	tree.WriteString("100644 blob " + blob + "\t" + name + "\n")
	made := p.GitWith(tree.String(), "-C", p.Dir, "mktree")
	head := p.Git("-C", p.Dir, "commit-tree", made, "-p", "fix", "-m", "change "+name)
	p.Git("-C", p.Dir, "update-ref", "refs/heads/fix", head)
	p.RecordAction("PUSH_BRANCH", head, 0)
	p.Pushed(threadtest.Repository, "bot")
	p.AwaitReview(head)
}

// expectDump requires how often each part is in the state of the code host.
func expectDump(p *threadtest.PullWorld, parts map[string]int) {
	p.Helper()
	dump := p.Dump()
	for part, want := range parts {
		if got := strings.Count(dump, part); got != want {
			p.Errorf("%d times %q, not %d, in\n%s", got, part, want, dump)
		}
	}
}

// TestThreads resolves the thread whose line a push has changed, where the code host can, and no other. The replies tell the state of
// the threads.
func TestThreads(t *testing.T) {
	for name, refused := range map[string]bool{"allowed": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			threadtest.EachPull(t, func(p *threadtest.PullWorld) {
				pushFile(p, "word", "hello\n")
				pushFile(p, "other", "x\n")
				p.AddReview("wilma", "CHANGES_REQUESTED", "", forgetest.LineComment{Path: "word", Line: 1, Body: "Louder."}, forgetest.LineComment{Path: "other", Line: 1, Body: "Why x?"})
				p.Expect("changes run_1", "Louder.")
				pushFile(p, "word", "HELLO\n")
				if refused {
					p.Server.Fail("POST", "/graphql", 2, http.StatusForbidden, nil)
				}
				p.ShowTwice()
				resolved := 0
				if p.Bot.Kind() == forge.GitHub && !refused {
					resolved = 1
				}
				expectDump(p, map[string]int{
					`at word:1 reply=false resolved=true: "Louder."`: resolved, "The thread is resolved": resolved, "resolved=true": resolved,
					"The thread stays open": 2 - resolved, "pushed `": 2,
				})
			})
		})
	}
}

// TestAssumptions makes each assumption a comment on its line, once, although an answer is lost. Those about lines that the pull request
// does not show are in one comment.
func TestAssumptions(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		pushFile(p, "word", "hello\n")
		p.Infos = []string{
			`{"message":"English","kind":"assumption","metadata":{"files":[{"path":"word","lines":"1-1","note":"of @ann"}]}}`,
			`{"message":"English","kind":"assumption","metadata":{"files":[{"path":"word","lines":[1],"note":"of @ann"}]}}`,
			`{"message":"It is read once","kind":"assumption","metadata":{"files":[{"path":"../etc/passwd","lines":2}]}}`,
			`{"message":"No tests","kind":"assumption"}`,
			`{"message":"not one","kind":"note","metadata":{"files":[{"path":"word","lines":1}]}}`,
		}
		p.LoseAnswer("POST", map[forge.Kind]string{forge.GitHub: "/pulls/2/comments", forge.Gitea: "/pulls/2/reviews"}[p.Bot.Kind()])
		if err := p.ShowPull(); err == nil {
			t.Error("a lost answer is no error")
		}
		p.ShowTwice()
		want := map[string]int{"review-comment acme/site#2 by bot at word:1": 1, "the agent assumes here": 1, "the agent assumes:": 1, "not one": 0, "No tests": 1, "../etc/passwd:2": 1}
		expectDump(p, want)

		// Another assumption of the next round is added; a line that GitHub does not show is in the comment with the others.
		p.Infos = append(p.Infos, `{"message":"Long","kind":"assumption","metadata":{"files":[{"path":"word","lines":900}]}}`)
		pushFile(p, "word", "HELLO\n")
		if err := p.ShowPull(); err != nil {
			t.Fatal(err)
		}
		want["Long"], want["word:900"] = 1, 1
		if p.Bot.Kind() == forge.Gitea {
			want["the agent assumes here"] = 2
		}
		expectDump(p, want)
	})
}

// TestCheckOfRun shows the state of a run at the commit that it pushed last. A code host that refuses it changes nothing else.
func TestCheckOfRun(t *testing.T) {
	threadtest.EachKind(t, func(w *threadtest.World) {
		p := threadtest.NewPullWorld(w)
		w.Known[0].Flow = "pull-request"
		show := func(want string) {
			t.Helper()
			if err := p.ShowPull(); err != nil {
				t.Error(err)
			}
			if line := "check " + p.First + " lattice/pull-request " + want + " run=false\n"; strings.Count(w.Dump(), "\ncheck ") != 1 || !strings.Contains(w.Dump(), line) {
				t.Errorf("there is no %q in\n%s", line, w.Dump())
			}
		}
		show("pending")
		w.Known[0].Status, w.Known[0].Waits = lattice.Succeeded, nil
		show("success")
		w.SetRole(threadtest.Repository, "bot", forge.Read)
		w.Known[0].Status = lattice.Failed
		show("success")
	})
}

// TestDecidedBeforeReply approves a fixup before lattice has answered the review that asked for it: the answer comes, once.
func TestDecidedBeforeReply(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.AddReview("wilma", "CHANGES_REQUESTED", "Too long.")
		p.Expect("changes run_1", `"verdict":"changes"`)
		p.Work()
		second := p.Push("bot", "better", "fix")
		p.AwaitReview(second)
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("approved run_1", `"verdict":"approved"`)
		p.Work()
		p.ShowTwice()
		if dump := p.Dump(); strings.Count(dump, "**lattice** pushed ` "+second[:12]) != 1 {
			t.Errorf("the review is not answered once:\n%s", dump)
		}
	})
}
