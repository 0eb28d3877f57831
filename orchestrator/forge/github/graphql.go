package github

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// The calls in this file are of GitHub's GraphQL interface, because its REST interface lacks them.

// sendQuery sends a query or a mutation, and decodes the data of its answer into out, unless that is nil.
func (c *Client) sendQuery(ctx context.Context, text string, variables map[string]any, out any) error {
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	err := c.DoAt(ctx, http.MethodPost, c.graphql, map[string]any{"query": text, "variables": variables}, &answer)
	switch {
	case err != nil:
		return err
	case len(answer.Errors) > 0:
		return &forge.Problem{Status: http.StatusOK, Message: answer.Errors[0].Message}
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer.Data, out)
}

// thread is the thread of a review.
type thread struct {
	ID         string `json:"id"`
	IsResolved bool   `json:"isResolved"`
	IsOutdated bool   `json:"isOutdated"`
	Comments   struct {
		Nodes []struct {
			FullDatabaseID int64 `json:"fullDatabaseId,string"`
		} `json:"nodes"`
	} `json:"comments"`
}

// maxThreadPages bounds the threads of a pull request that are looked at, a hundred on each page.
const maxThreadPages = 10

// findThread returns the thread that a comment began, and whether there is one.
func (c *Client) findThread(ctx context.Context, p forge.Path, number, comment int64) (thread, bool, error) {
	var after *string
	for range maxThreadPages {
		var found struct {
			Repository struct {
				PullRequest struct {
					ReviewThreads struct {
						Nodes    []thread `json:"nodes"`
						PageInfo struct {
							HasNextPage bool   `json:"hasNextPage"`
							EndCursor   string `json:"endCursor"`
						} `json:"pageInfo"`
					} `json:"reviewThreads"`
				} `json:"pullRequest"`
			} `json:"repository"`
		}
		err := c.sendQuery(ctx, `query($owner: String!, $name: String!, $number: Int!, $after: String) { repository(owner: $owner, name: $name) { pullRequest(number: $number) {
 reviewThreads(first: 100, after: $after) { nodes { id isResolved isOutdated comments(first: 1) { nodes { fullDatabaseId } } } pageInfo { hasNextPage endCursor } } } } }`,
			map[string]any{"owner": p.Owner, "name": p.Name, "number": number, "after": after}, &found)
		if err != nil {
			return thread{}, false, err
		}
		page := found.Repository.PullRequest.ReviewThreads
		for _, t := range page.Nodes {
			if first := t.Comments.Nodes; len(first) > 0 && first[0].FullDatabaseID == comment {
				return t, true, nil
			}
		}
		if !page.PageInfo.HasNextPage {
			break
		}
		after = &page.PageInfo.EndCursor
	}
	return thread{}, false, nil
}

// ResolveOutdated implements [forge.Resolver].
func (c *Client) ResolveOutdated(ctx context.Context, p forge.Path, number, comment int64) (resolved bool, err error) {
	t, found, err := c.findThread(ctx, p, number, comment)
	if err != nil || !found || t.IsResolved || !t.IsOutdated {
		return t.IsResolved, err
	}
	var done struct {
		ResolveReviewThread struct {
			Thread thread `json:"thread"`
		} `json:"resolveReviewThread"`
	}
	err = c.sendQuery(ctx, "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { id isResolved } } }", map[string]any{"id": t.ID}, &done)
	return done.ResolveReviewThread.Thread.IsResolved, err
}
