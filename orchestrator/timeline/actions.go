package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// KeyLength is how much of an action's key people are shown and type.
const KeyLength = 10

// ByHand says how an action that lattice cannot perform is completed.
const ByHand = "lattice is not connected to a code host: it keeps this request and your decision, and a person does it there"

// DescribeAction is an action on one line.
func DescribeAction(a api.NotedAction) string {
	text := cli.Clean(a.Action + " " + string(a.Parameters))
	if a.Detail != "" {
		text += " (" + cli.Clean(a.Detail) + ")"
	}
	return text
}

// maxParameter is how much of a parameter is printed, in characters.
const maxParameter = 4000

// DescribeRequest returns an action as the lines that its approval is about: the texts for a code host, and the binding.
func DescribeRequest(a lattice.Action) (lines []string) {
	var p struct {
		Number int64    `json:"number"`
		Title  string   `json:"title"`
		Body   string   `json:"body"`
		Labels []string `json:"labels"`

		Document string               `json:"document"`
		Issues   []protocol.TaskIssue `json:"issues"`
	}
	atHost := a.Name == protocol.ActionOpenPR || a.Name == protocol.ActionPostComment || a.Name == protocol.ActionLabelIssue || a.Name == protocol.ActionOpenIssues
	if atHost && json.Unmarshal(a.Parameters, &p) == nil {
		if p.Number > 0 {
			lines = append(lines, fmt.Sprintf("number: %d", p.Number))
		}
		var issues []string
		for _, issue := range p.Issues {
			issues = append(issues, fmt.Sprintf("%s (epic %s)", cli.CleanLine(issue.Title), cli.CleanLine(issue.Epic)))
		}
		for _, part := range []struct{ name, text string }{{"document", p.Document}, {"issues", strings.Join(issues, "\n")}, {"title", p.Title}, {"labels", strings.Join(p.Labels, ", ")}, {"body", p.Body}} {
			shown := []rune(strings.TrimSpace(part.text))
			if len(shown) == 0 {
				continue
			}
			if len(shown) > maxParameter {
				shown = append(shown[:maxParameter], '…')
			}
			for i, line := range strings.Split(string(shown), "\n") {
				name := part.name + ": "
				if i > 0 {
					name = "  "
				}
				lines = append(lines, name+cli.CleanLine(line))
			}
		}
	}
	return append(lines, DescribeBinding(a.Binding)...)
}

// DescribeActions prints the actions that skills of a run asked for without waiting, and the commands that decide them.
func DescribeActions(out io.Writer, all []api.NotedAction) {
	for _, a := range all {
		fmt.Fprintf(out, "%s asked without waiting: %s: %s\n", a.RunID, a.Status, DescribeAction(a))
		if a.Status == api.ActionApproved {
			fmt.Fprintf(out, "  next: lattice action approve %s %.*s   its outcome is unknown; an action that was performed is not repeated\n", a.RunID, KeyLength, a.Key)
		}
		if a.Status != api.ActionOpen {
			continue
		}
		for _, line := range DescribeBinding(a.Binding) {
			fmt.Fprintf(out, "  %s\n", line)
		}
		effect := "which does it"
		if a.ByHand {
			effect = "when you have done it"
			fmt.Fprintf(out, "  %s\n", ByHand)
		}
		fmt.Fprintf(out, "  next: lattice action approve %s %.*s   %s\n    or: lattice action reject %s %.*s\n", a.RunID, KeyLength, a.Key, effect, a.RunID, KeyLength, a.Key)
	}
}
