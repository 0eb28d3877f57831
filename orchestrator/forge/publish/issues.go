package publish

import (
	"context"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// OpenIssues opens the issues that were not opened under their keys before, and returns all of them in their order. An issue that
// people changed or closed since is found by its marker, and stays as it is. earlier is when an earlier attempt began, as in
// [forge.Attempt].
func (p *Publisher) OpenIssues(ctx context.Context, place forge.Place, earlier time.Time, keys []string, all []forge.NewIssue) ([]forge.Published, error) {
	c, self, err := p.connect(ctx, place)
	if err != nil {
		return nil, err
	}
	var there []forge.Issue
	if _, err := p.lookAgain(ctx, earlier, func() (bool, error) {
		there, err = c.IssuesSince(ctx, place.Path, time.Unix(0, 0))
		return !slices.ContainsFunc(keys, func(key string) bool {
			_, found := findIssue(there, self.ID, forge.MarkerOf("issue", key))
			return !found
		}), err
	}); err != nil {
		return nil, err
	}
	var done []forge.Published
	for i, n := range all {
		marker := forge.MarkerOf("issue", keys[i])
		one, found := findIssue(there, self.ID, marker)
		if !found {
			n.Body = marker.Add(Mute(n.Body))
			if one, err = c.OpenIssue(ctx, place.Path, n); err != nil {
				return nil, err
			}
		}
		status := forge.Opened
		if found {
			status = forge.AlreadyOpen
		}
		done = append(done, forge.Published{Status: status, URL: one.WebURL, Number: one.Number})
	}
	return done, nil
}

// findIssue returns the issue of an author with a marker.
func findIssue(all []forge.Issue, author int64, m forge.Marker) (forge.Issue, bool) {
	for _, issue := range all {
		if issue.Author.ID == author && m.IsIn(issue.Body) {
			return issue, true
		}
	}
	return forge.Issue{}, false
}
