package forgetest

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// threads answers requests about comments on lines of pull requests and their threads.
type threads struct{ *model }

// commentOnLine adds a comment to a line of the change.
func (s threads) commentOnLine(q request) {
	i := q.pull()
	var in struct {
		Body, Path, Side string
		CommitID         string `json:"commit_id"`
		Line             int
	}
	switch {
	case i == nil || !q.decode(&in):
	case in.Body == "" || in.Side != "RIGHT" || in.CommitID != i.pull.headSHA:
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: commit_id is not part of the pull request")
	case !isShown(q.repo.dir, revParse(q.repo.dir, i.pull.base), in.CommitID, in.Path, in.Line):
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: pull_request_review_thread.line must be part of the diff")
	default:
		v := s.addReview(q, i, in.CommitID)
		q.writeJSON(http.StatusCreated, s.reviewCommentJSON(q.repo, i, s.addLineComment(i, v, in.Path, in.Line, in.Body)))
	}
}

// createReview adds a review of Gitea that only comments.
func (s threads) createReview(q request) {
	i := q.pull()
	var in struct {
		Event    string
		CommitID string `json:"commit_id"`
		Comments []struct {
			Path, Body  string
			NewPosition int `json:"new_position"`
		}
	}
	if i == nil || !q.decode(&in) {
		return
	}
	if in.Event != "COMMENT" || len(in.Comments) == 0 || in.CommitID != i.pull.headSHA {
		writeProblem(q.w, http.StatusUnprocessableEntity, "the review is empty")
		return
	}
	v := s.addReview(q, i, in.CommitID)
	for _, c := range in.Comments {
		s.addLineComment(i, v, c.Path, c.NewPosition, c.Body)
	}
	q.writeJSON(http.StatusOK, s.reviewJSON(i, v))
}

// addReview adds a review that only comments.
func (s threads) addReview(q request, i *item, commit string) *review {
	v := &review{id: s.nextID(), author: q.by, state: "COMMENTED", commit: commit, submitted: s.advanceClock()}
	i.pull.reviews = append(i.pull.reviews, v)
	s.emitReview(q.repo, "submitted", i, v)
	return v
}

func (s *model) addLineComment(i *item, v *review, path string, line int, body string) *reviewComment {
	c := &reviewComment{comment: comment{id: s.nextID(), author: v.author, body: body, created: v.submitted, updated: v.submitted}, review: v.id, path: path, line: line, commit: v.commit}
	i.pull.reviewComments = append(i.pull.reviewComments, c)
	return c
}

// isShown reports whether a change shows a line of a file: it is changed, or close to a line that is.
func isShown(dir, base, head, path string, line int) bool {
	out, err := exec.Command("git", "-C", dir, "diff", "-U3", base+"..."+head, "--", path).Output()
	if err != nil {
		return false
	}
	for text := range strings.Lines(string(out)) {
		var from, n int
		_, added, ok := strings.Cut(text, " +")
		if !ok || !strings.HasPrefix(text, "@@ ") {
			continue
		}
		if k, _ := fmt.Sscanf(added, "%d,%d", &from, &n); k < 2 {
			n = 1
		}
		if from <= line && line < from+n {
			return true
		}
	}
	return false
}

// isOutdated reports whether the line of a comment has another text now.
func isOutdated(dir, head string, c *reviewComment) bool {
	read := func(commit string) []byte {
		text, _ := exec.Command("git", "-C", dir, "show", commit+":"+c.path).Output()
		if lines := bytes.Split(text, []byte("\n")); c.line <= len(lines) {
			return lines[c.line-1]
		}
		return nil
	}
	return !bytes.Equal(read(c.commit), read(head))
}

// graphql knows the query and the mutations that lattice uses.
func (s threads) graphql(q request) {
	var in struct {
		Query     string
		Variables map[string]any
	}
	if !q.decode(&in) {
		return
	}
	var data any
	id, _ := in.Variables["id"].(string)
	switch {
	case strings.Contains(in.Query, "resolveReviewThread(input: {threadId: $id})"):
		data = s.resolve(q, id)
	case strings.Contains(in.Query, "reviewThreads(first: 100, after: $after)"):
		data = s.listThreads(in.Variables)
	}
	if data == nil {
		q.writeJSON(http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]string{"message": "Could not resolve to a node"}}})
		return
	}
	q.writeJSON(http.StatusOK, map[string]any{"data": data})
}

func (s threads) resolve(q request, id string) any {
	for _, r := range s.repos {
		for _, i := range r.items {
			if i.pull == nil || !r.roleOf(q.by).AtLeast(forge.Write) {
				continue
			}
			for _, c := range i.pull.reviewComments {
				if id == "PRRT_"+strconv.FormatInt(c.id, 10) && c.replyTo == 0 {
					c.resolved = true
					return map[string]any{"resolveReviewThread": map[string]any{"thread": map[string]any{"id": id, "isResolved": true}}}
				}
			}
		}
	}
	return nil
}

func (s threads) listThreads(variables map[string]any) any {
	r := s.findRepo(fmt.Sprint(variables["owner"], "/", variables["name"]))
	if r == nil {
		return nil
	}
	n := slices.IndexFunc(r.items, func(i *item) bool { return i.pull != nil && fmt.Sprint(i.number) == fmt.Sprint(variables["number"]) })
	if n < 0 {
		return nil
	}
	nodes := []any{}
	for _, c := range r.items[n].pull.reviewComments {
		if c.replyTo == 0 {
			nodes = append(nodes, map[string]any{"id": "PRRT_" + strconv.FormatInt(c.id, 10), "isResolved": c.resolved, "isOutdated": isOutdated(r.dir, r.items[n].pull.headSHA, c),
				"comments": map[string]any{"nodes": []any{map[string]any{"fullDatabaseId": strconv.FormatInt(c.id, 10)}}}})
		}
	}
	page := map[string]any{"nodes": nodes, "pageInfo": map[string]any{"hasNextPage": false, "endCursor": ""}}
	return map[string]any{"repository": map[string]any{"pullRequest": map[string]any{"reviewThreads": page}}}
}
