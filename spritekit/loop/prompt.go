package loop

import (
	"fmt"
	"strings"
)

// Injection is the context that an agent gets in an iteration.
type Injection struct {
	Spec          string
	Instructions  string   // of the template
	Dir           string   // folder of the files, as the agent sees it
	Siblings      []string // folders of other repositories
	Iteration     int
	MaxIterations int
	Tasks         []Task
	Last          *Entry // nil in the first iteration
	Failure       string // of the last verification
	Answer        string // of a person, after a question or a stop
	Feedback      bool   // there is a FeedbackFile
	SpecDiff      bool   // there is a SpecDiffFile
}

const protocolText = `You work in a loop and remember nothing of earlier iterations; the files and this text are all there is. Choose one task that does not pass, finish it, test it, and stop. If there are no tasks yet, make the list first. Do not commit: your changes are committed for you. Do not change existing tests: the commit is verified with the tests of the first commit. Remove no task from the list.

%[1]s/tasks.json is the list of tasks: an array of {"category", "description", "steps", "passes"}. Set passes of the task that you finished.
As the last thing, write %[1]s/state.json: {"status", "summary"}. The status is CONTINUE while tasks are left, DONE when all pass, NEEDS_INPUT with "question", or BLOCKED with "error". If you write no file, end with this object as your answer, with "tasks" in it.
When all is done, you may write %[1]s/pr.json with "title" and "body" of the pull request, and %[1]s/divergence.md with the points where your work differs from the spec, and why.`

// Prompt returns the text of an iteration.
func Prompt(in Injection) string {
	var b strings.Builder
	if in.Instructions != "" {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(in.Instructions))
	}
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(in.Spec))
	fmt.Fprintf(&b, protocolText, in.Dir)
	if len(in.Siblings) > 0 {
		fmt.Fprintf(&b, "\nThese folders hold other repositories, for reading only: %s. Change nothing there.", strings.Join(in.Siblings, ", "))
	}
	fmt.Fprintf(&b, "\n\nIteration %d of max %d.\nIncomplete tasks: %d of %d.\n", in.Iteration, in.MaxIterations, Incomplete(in.Tasks), len(in.Tasks))
	for _, t := range in.Tasks {
		mark := "[ ]"
		if t.Passes {
			mark = "[x]"
		}
		fmt.Fprintf(&b, "- %s %s\n", mark, cutText(nameOf(t), 300))
	}
	if in.Last != nil {
		fmt.Fprintf(&b, "Previous summary: %s\n", cutText(in.Last.Summary, 200))
		switch {
		case in.Last.Green:
			b.WriteString("Last verification: green\n")
		case in.Failure != "":
			fmt.Fprintf(&b, "Last verification: red\n%s\n", cutText(in.Failure, 4000))
		}
		switch {
		case in.Last.Undone:
			b.WriteString("Its changes were undone: the files are those before it.\n")
		case in.Last.Decision == DecideCrashed:
			fmt.Fprintf(&b, "The previous call was cut off, and its changes may be half-done: %s\n", cutText(in.Last.Reason, 1000))
		}
		if in.Last.Decision == DecideRefuse {
			fmt.Fprintf(&b, "You said DONE, which does not count: %s.\n", in.Last.Reason)
		}
	}
	if in.Answer != "" {
		switch {
		case in.Last == nil:
		case in.Last.Decision == DecideAsk:
			fmt.Fprintf(&b, "You asked: %s\n", in.Last.Reason)
		case in.Last.Decision == DecideDone:
			b.WriteString("The result was not accepted.\n")
		case in.Last.Decision.Stops():
			fmt.Fprintf(&b, "The loop had stopped (%s): %s\n", in.Last.Decision, in.Last.Reason)
		}
		fmt.Fprintf(&b, "A person says: %s\n", in.Answer)
	}
	if in.SpecDiff {
		fmt.Fprintf(&b, "The spec has changed; %s/%s says how. Update the list of tasks first.\n", in.Dir, SpecDiffFile)
	}
	if in.Feedback {
		fmt.Fprintf(&b, "Reviewers have left feedback in %s/%s. Make tasks of it.\n", in.Dir, FeedbackFile)
	}
	return b.String()
}
