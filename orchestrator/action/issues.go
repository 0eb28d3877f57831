package action

import (
	"context"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// openedIssues is the outcome of OPEN_ISSUES: the issues of the tasks, and those of the epics. URL is that of the comment with the links.
type openedIssues struct {
	Issues []openedIssue `json:"issues"`
	Epics  []openedIssue `json:"epics"`
	URL    string        `json:"url,omitempty"`
}

type openedIssue struct {
	Key string `json:"key"`
	forge.Published
}

// openIssues opens an issue for each task, then one for each epic with the list of its tasks, and then links them from the issue
// of the project. Each step finds its work of an earlier attempt, or of an earlier round, again.
func (f *Fulfiller) openIssues(ctx context.Context, a lattice.Action, at forge.Place) (any, error) {
	p, err := decodeParameters[protocol.OpenIssues](a.Parameters)
	if err != nil {
		return nil, badParameters(a.Name, err)
	}
	var keys []string
	var tasks []forge.NewIssue
	for _, issue := range p.Issues {
		body := issue.Body + "\n\nFrom " + p.Document
		if issue.Epic != "" {
			body += ", epic " + issue.Epic
		}
		keys, tasks = append(keys, p.Document+"\x00task\x00"+issue.Key), append(tasks, forge.NewIssue{Title: issue.Title, Body: strings.TrimSpace(body)})
	}
	opened, err := f.publisher.OpenIssues(ctx, at, a.Begun, keys, tasks)
	if err != nil {
		return nil, err
	}
	out := openedIssues{Issues: []openedIssue{}, Epics: []openedIssue{}}
	for i, one := range opened {
		out.Issues = append(out.Issues, openedIssue{p.Issues[i].Key, one})
	}
	names, lists := listEpics(p, opened)
	keys, tasks = nil, nil
	for i, name := range names {
		if name == "" {
			continue
		}
		keys = append(keys, p.Document+"\x00epic\x00"+name)
		tasks = append(tasks, forge.NewIssue{Title: "Epic: " + name, Body: lists[i] + "\nFrom " + p.Document})
	}
	if opened = nil; len(keys) > 0 {
		if opened, err = f.publisher.OpenIssues(ctx, at, a.Begun, keys, tasks); err != nil {
			return nil, err
		}
	}
	var links strings.Builder
	fmt.Fprintf(&links, "The tasks of %s:\n\n", p.Document)
	for i, name := range names {
		if name != "" {
			epic := opened[len(out.Epics)]
			out.Epics = append(out.Epics, openedIssue{name, epic})
			fmt.Fprintf(&links, "Epic %s: #%d\n\n", name, epic.Number)
		}
		links.WriteString(lists[i] + "\n")
	}
	if p.Number > 0 {
		done, err := f.publisher.PostComment(ctx, at, forge.Attempt{Key: a.Key, Earlier: a.Begun}, p.Number, links.String())
		if err != nil {
			return nil, err
		}
		out.URL = done.URL
	}
	return out, nil
}

// listEpics returns the epics in the order of their first tasks, "" for tasks without one, and for each the list of its tasks, in
// Markdown.
func listEpics(p protocol.OpenIssues, opened []forge.Published) (names, lists []string) {
	at := map[string]int{}
	for i, issue := range p.Issues {
		j, known := at[issue.Epic]
		if !known {
			j = len(names)
			at[issue.Epic], names, lists = j, append(names, issue.Epic), append(lists, "")
		}
		lists[j] += fmt.Sprintf("- [ ] #%d %s\n", opened[i].Number, issue.Title)
	}
	return names, lists
}
