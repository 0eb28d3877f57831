package forgetest

import (
	"cmp"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// pulls answers requests about pull requests.
type pulls struct{ *model }

func (s pulls) listPulls(q request) {
	var out []any
	_, head, _ := strings.Cut(q.URL.Query().Get("head"), ":")
	for _, i := range slices.Backward(q.repo.items) {
		if i.pull == nil || q.URL.Query().Get("state") != "all" && !i.open || s.kind == forge.GitHub && head != "" && i.pull.head != head {
			continue
		}
		out = append(out, s.pullJSON(q.repo, i))
	}
	q.writePage(s.model, out)
}

func (s pulls) createPull(q request) {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if !q.decode(&in) {
		return
	}
	head, base := revParse(q.repo.dir, in.Head), revParse(q.repo.dir, in.Base)
	switch {
	case !q.repo.roleOf(q.by).AtLeast(forge.Write):
		writeProblem(q.w, http.StatusForbidden, "Resource not accessible by personal access token")
	case head == "":
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: head invalid")
	case base == "":
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: base invalid")
	case in.Title == "":
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: title missing")
	case exec.Command("git", "-C", q.repo.dir, "merge-base", "--is-ancestor", head, base).Run() == nil:
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: No commits between "+in.Base+" and "+in.Head)
	case slices.ContainsFunc(q.repo.items, func(i *item) bool {
		return i.pull != nil && i.open && i.pull.head == in.Head && i.pull.base == in.Base
	}):
		status := http.StatusUnprocessableEntity
		if s.kind == forge.Gitea {
			status = http.StatusConflict
		}
		writeProblem(q.w, status, "Validation Failed: A pull request already exists for "+q.repo.owner.Login+":"+in.Head+".")
	default:
		i := s.addItem(q.repo, q.by, in.Title, in.Body)
		i.pull = &pull{head: in.Head, base: in.Base, headSHA: head, draft: in.Draft}
		s.emitItem(q.repo, "pull_request", "opened", i, nil)
		q.writeJSON(http.StatusCreated, s.pullJSON(q.repo, i))
	}
}

func (s pulls) editPull(q request) {
	i := q.pull()
	var in struct{ Title string }
	if i != nil && q.decode(&in) {
		i.title, i.updated = in.Title, s.advanceClock()
		q.writeJSON(http.StatusCreated, s.pullJSON(q.repo, i))
	}
}

// listFiles lists the files that a pull request changes, as git counts their lines.
func (s pulls) listFiles(q request) {
	i := q.pull()
	if i == nil {
		return
	}
	git := func(format string) (lines [][]string) {
		out, _ := exec.Command("git", "-C", q.repo.dir, "diff", "--no-renames", format, i.pull.base+"..."+i.pull.headSHA).Output()
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.Split(strings.TrimSpace(line), "\t"))
		}
		return lines
	}
	var out []any
	states := git("--name-status")
	for n, f := range git("--numstat") {
		added, _ := strconv.Atoi(f[0])
		deleted, _ := strconv.Atoi(f[1])
		status := map[string]string{"A": "added", "D": "removed", "M": "modified", "T": "changed"}[states[n][0]]
		if s.kind == forge.Gitea {
			status = map[string]string{"added": "added", "removed": "deleted"}[status]
			status = cmp.Or(status, "changed")
		}
		out = append(out, map[string]any{"filename": f[2], "status": status, "additions": added, "deletions": deleted, "changes": added + deleted, "sha": strings.Repeat("0", 40)})
	}
	q.writePage(s.model, out)
}

func (s pulls) listReviews(q request) {
	if i := q.pull(); i != nil {
		var out []any
		for _, v := range i.pull.reviews {
			out = append(out, s.reviewJSON(i, v))
		}
		q.writePage(s.model, s.dropNewest(out))
	}
}

// listReviewComments lists those of a pull request, or of one review.
func (s pulls) listReviewComments(q request) {
	if i := q.pull(); i != nil {
		var out []any
		for _, c := range i.pull.reviewComments {
			if id := q.PathValue("id"); id == "" || id == strconv.FormatInt(c.review, 10) {
				out = append(out, s.reviewCommentJSON(q.repo, i, c))
			}
		}
		q.writePage(s.model, out)
	}
}

func (s pulls) replyToComment(q request) {
	i := q.pull()
	var in struct{ Body string }
	if i == nil || !q.decode(&in) {
		return
	}
	for _, c := range i.pull.reviewComments {
		if strconv.FormatInt(c.id, 10) != q.PathValue("id") {
			continue
		}
		if c.replyTo != 0 {
			writeProblem(q.w, http.StatusUnprocessableEntity, "Replies to replies are not supported")
			return
		}
		now := s.advanceClock()
		answer := &reviewComment{comment: comment{id: s.nextID(), author: q.by, body: in.Body, created: now, updated: now}, review: c.review, replyTo: c.id, path: c.path, line: c.line, commit: c.commit}
		i.pull.reviewComments = append(i.pull.reviewComments, answer)
		q.writeJSON(http.StatusCreated, s.reviewCommentJSON(q.repo, i, answer))
		return
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}
