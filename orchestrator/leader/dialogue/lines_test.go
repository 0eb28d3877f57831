package dialogue_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
)

// pushFile has lattice push a commit in which one file has another text, and the run wait for its review.
func (p *pullWorld) pushFile(name, text string) {
	p.Helper()
	blob := strings.TrimSpace(p.gitWith(text, "-C", p.dir, "hash-object", "-w", "--stdin"))
	var tree strings.Builder
	for line := range strings.Lines(p.git("-C", p.dir, "ls-tree", "fix") + "\n") {
		if !strings.HasSuffix(line, "\t"+name+"\n") && line != "\n" {
			tree.WriteString(line)
		}
	}
	tree.WriteString("100644 blob " + blob + "\t" + name + "\n")
	made := strings.TrimSpace(p.gitWith(tree.String(), "-C", p.dir, "mktree"))
	head := p.git("-C", p.dir, "commit-tree", made, "-p", "fix", "-m", "change "+name)
	p.git("-C", p.dir, "update-ref", "refs/heads/fix", head)
	p.performed("PUSH_BRANCH", head, 0)
	p.Pushed(repository, "bot")
	p.waits(head)
}

// gitWith runs git with an input.
func (p *pullWorld) gitWith(input string, args ...string) string {
	p.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// showPull has a scribe that knows only the audit log show the pull request.
func (p *pullWorld) showPull() error {
	pull, _ := dialogue.ParseThread("main:acme/site#2")
	return p.newScribe().Show(p.Context(), pull)
}

// expectDump requires how often each part is in the state of the code host.
func (p *pullWorld) expectDump(parts map[string]int) {
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
			eachPull(t, func(p *pullWorld) {
				p.pushFile("word", "hello\n")
				p.pushFile("other", "x\n")
				p.review("wilma", "CHANGES_REQUESTED", "", forgetest.LineComment{Path: "word", Line: 1, Body: "Louder."}, forgetest.LineComment{Path: "other", Line: 1, Body: "Why x?"})
				p.expect("changes run_1", "Louder.")
				p.pushFile("word", "HELLO\n")
				if refused {
					p.Server.Fail("POST", "/graphql", 2, http.StatusForbidden, nil)
				}
				for range 2 {
					if err := p.showPull(); err != nil {
						t.Fatal(err)
					}
				}
				resolved := 0
				if p.bot.Kind() == forge.GitHub && !refused {
					resolved = 1
				}
				p.expectDump(map[string]int{
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
	eachPull(t, func(p *pullWorld) {
		p.pushFile("word", "hello\n")
		p.infos = []string{
			`{"message":"English","kind":"assumption","metadata":{"files":[{"path":"word","lines":"1-1","note":"of @ann"}]}}`,
			`{"message":"English","kind":"assumption","metadata":{"files":[{"path":"word","lines":[1],"note":"of @ann"}]}}`,
			`{"message":"It is read once","kind":"assumption","metadata":{"files":[{"path":"../etc/passwd","lines":2}]}}`,
			`{"message":"No tests","kind":"assumption"}`,
			`{"message":"not one","kind":"note","metadata":{"files":[{"path":"word","lines":1}]}}`,
		}
		p.LoseAnswer("POST", map[forge.Kind]string{forge.GitHub: "/pulls/2/comments", forge.Gitea: "/pulls/2/reviews"}[p.bot.Kind()])
		if err := p.showPull(); err == nil {
			t.Error("a lost answer is no error")
		}
		for range 2 {
			if err := p.showPull(); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]int{"review-comment acme/site#2 by bot at word:1": 1, "the agent assumes here": 1, "the agent assumes:": 1, "not one": 0, "No tests": 1, "../etc/passwd:2": 1}
		p.expectDump(want)

		// Another assumption of the next round is added; a line that GitHub does not show is in the comment with the others.
		p.infos = append(p.infos, `{"message":"Long","kind":"assumption","metadata":{"files":[{"path":"word","lines":900}]}}`)
		p.pushFile("word", "HELLO\n")
		if err := p.showPull(); err != nil {
			t.Fatal(err)
		}
		want["Long"], want["word:900"] = 1, 1
		if p.bot.Kind() == forge.Gitea {
			want["the agent assumes here"] = 2
		}
		p.expectDump(want)
	})
}

// TestLateReply loses the answer to the reply to a command, and the code host lists the reply late: it is not written again.
func TestLateReply(t *testing.T) {
	eachKind(t, func(w *world) {
		w.LoseAnswer("POST", "1/comments")
		w.Comment(repository, "wilma", w.issue, "/lattice help")
		w.deliver()
		if err := w.in.HandleAll(t.Context(), "main"); err == nil {
			t.Error("a lost answer is no error")
		}
		w.Lag(1)
		if err := w.in.HandleAll(t.Context(), "main"); err == nil {
			t.Error("a late list shows that the reply is not there")
		}
		if err := w.in.HandleAll(t.Context(), "main"); err != nil || len(w.replies()) != 1 {
			t.Errorf("%v, replies %q", err, w.replies())
		}
	})
}
