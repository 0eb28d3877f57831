package forgetest_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
)

// shown reports for each capability whether a client has it, judged by the requests that the client makes.
var shown = map[forge.Capability]func(w *world) bool{
	forge.CheckRuns: func(w *world) bool {
		w.check(w.bot.SetCheck(w.Context(), site, w.Branch("acme/site", "main"), forge.Check{Name: "lattice/token", State: forge.CheckSuccess}))
		if !strings.Contains(w.Dump(), "lattice/token success run=false") { // without an App it is a commit status
			w.Error("a token wrote no commit status")
		}
		app := w.app()
		if app == nil {
			return false
		}
		w.check(app.SetCheck(w.Context(), site, w.Branch("acme/site", "main"), forge.Check{Name: "lattice/app", State: forge.CheckSuccess}))
		return strings.Contains(w.Dump(), "lattice/app completedsuccess run=true")
	},
	forge.DraftPulls: func(w *world) bool {
		opened, err := w.bot.OpenPull(w.Context(), site, forge.NewPull{Title: "Draft", Head: "sprite/1", Base: "main", Draft: true})
		w.check(err)
		if marked := strings.Contains(w.Dump(), `"WIP: Draft"`); marked != (w.kind == forge.Gitea) {
			w.Errorf("the title begins with WIP: %t", marked)
		}
		return opened.Draft
	},
	forge.ReviewThreads: func(w *world) bool {
		number, comments := w.reviewed()
		_, err := w.bot.Reply(w.Context(), site, number, comments[0], "because")
		w.check(err)
		quoted := strings.Contains(w.Dump(), "by lattice: \"> `second:1`\\n\\nbecause")
		inThread := strings.Contains(w.Dump(), `by lattice at second:1 reply=true`)
		if quoted == inThread {
			w.Errorf("in a thread: %t, as a comment that quotes the place: %t", inThread, quoted)
		}
		return inThread
	},
	forge.ThreadResolution: func(w *world) bool { _, ok := w.bot.(forge.Resolver); return ok },
	forge.Redelivery:       func(w *world) bool { _, ok := w.bot.(forge.Redeliverer); return ok },
	forge.LabelCreation: func(w *world) bool {
		number := w.OpenIssue("acme/site", "ann", "x", "")
		before, _ := w.Requests()
		w.check(w.bot.AddLabels(w.Context(), site, int64(number), []string{"never seen"}))
		if !strings.Contains(w.Dump(), "label acme/site#") {
			w.Error("the label is not there")
		}
		after, _ := w.Requests()
		return after-before == 1 // the code host made it
	},
	forge.AppTokens: func(w *world) bool { return w.app() != nil },
	forge.RoleLookup: func(w *world) bool {
		ann, _ := w.AddUser("lou", "User")
		w.SetRole("acme/site", "lou", forge.Triage)
		if _, err := w.bot.Role(w.Context(), site, ann); (err == nil) != (w.kind == forge.GitHub) {
			w.Errorf("an account with the role write asks for a role: %v", err)
		}
		w.SetRole("acme/site", "lattice", forge.Admin)
		role, err := w.bot.Role(w.Context(), site, ann)
		w.check(err)
		return role == forge.Triage
	},
	forge.Reactions: func(w *world) bool {
		number := w.OpenIssue("acme/site", "ann", "x", "")
		w.check(w.bot.React(w.Context(), site, w.Comment("acme/site", "ann", number, "hello"), forge.Seen))
		return strings.Contains(w.Dump(), `eyes to "hello"`)
	},
	forge.TriggerLabels: func(w *world) bool {
		w.AddHook("acme/site", "http://127.0.0.1:9/hooks/main", "a secret of some length")
		w.Label("acme/site", "ann", w.OpenIssue("acme/site", "ann", "x", ""), "lattice-work")
		if len(w.Deliveries()) == 0 {
			w.Error("the label has no delivery")
		}
		return slices.ContainsFunc(w.Deliveries(), func(d forgetest.Delivery) bool {
			return slices.Contains([]hook.Kind{hook.Comment, hook.Review, hook.PullRequest, hook.Push}, hook.Parse(d.Event, d.Body).Kind)
		})
	},
	forge.Projects: func(*world) bool {
		calls := reflect.TypeFor[client]()
		for i := range calls.NumMethod() {
			if strings.Contains(calls.Method(i).Name, "Project") {
				return true
			}
		}
		return false
	},
}

// app returns a client of an App, nil where there are none.
func (w *world) app() *github.Client {
	if w.kind != forge.GitHub {
		return nil
	}
	key, err := github.ParseKey(w.AddApp(7, 70, "lattice-app", "acme/site", w.clock.Now))
	w.check(err)
	o := w.options("")
	o.Token = nil
	return github.NewApp(w.URL, 7, 70, key, o)
}

// reviewed opens a pull request, on whose line a person comments in a review.
func (w *world) reviewed() (number int64, comments []forge.ReviewComment) {
	w.Helper()
	opened, err := w.bot.OpenPull(w.Context(), site, forge.NewPull{Title: "Second", Head: "sprite/1", Base: "main"})
	w.check(err)
	w.Review("acme/site", "ann", int(opened.Number), forgetest.Review{State: "COMMENTED", Comments: []forgetest.LineComment{{Path: "second", Line: 1, Body: "why?"}}})
	comments, err = w.bot.ReviewComments(w.Context(), site, opened.Number)
	w.check(err)
	return opened.Number, comments
}

// TestCapabilities checks each row of the table of capabilities against a client, and that docs/connect.md has the row.
func TestCapabilities(t *testing.T) {
	document, err := os.ReadFile("../../../docs/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	cell := func(s forge.Support) string {
		text := "no"
		if s.Has {
			text = "yes"
		}
		if s.Instead != "" {
			text += ": " + s.Instead
		}
		return text
	}
	gitea := forge.Capabilities(forge.Gitea)
	for i, s := range forge.Capabilities(forge.GitHub) {
		row := "| " + strings.Join([]string{string(s.Capability), cell(s), cell(gitea[i])}, " | ") + " |\n"
		if !strings.Contains(string(document), row) {
			t.Errorf("docs/connect.md lacks the row\n%s", row)
		}
	}
	for i, s := range gitea {
		show, ok := shown[s.Capability]
		if !ok {
			t.Fatalf("nothing shows %s", s.Capability)
		}
		t.Run(string(s.Capability), func(t *testing.T) {
			eachKind(t, func(w *world) {
				w.AddUser("ann", "User")
				w.commit("second")
				w.push("sprite/1")
				if has, want := show(w), forge.Capabilities(w.kind)[i].Has; has != want {
					w.Errorf("the client has it: %t; the table says %t", has, want)
				}
			})
		})
	}
}
