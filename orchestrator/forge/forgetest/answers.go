package forgetest

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/forge"
)

func (s *model) repoJSON(r *repo) map[string]any {
	return map[string]any{"id": r.id, "name": r.name, "full_name": r.path(), "owner": r.owner, "default_branch": defaultBranch(r.dir), "private": r.private,
		"archived": false, "html_url": s.web + "/" + r.path(), "clone_url": s.web + "/" + r.path() + ".git"}
}

func (s *model) issueJSON(r *repo, i *item) map[string]any {
	m := map[string]any{"id": i.id, "number": i.number, "title": i.title, "body": i.body, "user": i.author, "labels": r.labelsOf(i), "state": stateOf(i),
		"html_url": fmt.Sprintf("%s/%s/issues/%d", s.web, r.path(), i.number), "created_at": i.created, "updated_at": i.updated}
	if i.pull != nil {
		m["pull_request"] = map[string]any{}
		m["html_url"] = s.pullURL(r, i)
	}
	return m
}

func (s *model) pullURL(r *repo, i *item) string {
	return fmt.Sprintf("%s/%s/%s/%d", s.web, r.path(), map[bool]string{true: "pull", false: "pulls"}[s.kind == forge.GitHub], i.number)
}

func stateOf(i *item) string {
	if i.open {
		return "open"
	}
	return "closed"
}

func (s *model) pullJSON(r *repo, i *item) map[string]any {
	m := s.issueJSON(r, i)
	delete(m, "pull_request")
	side := func(ref, sha string) map[string]any {
		return map[string]any{"ref": ref, "sha": sha, "repo": s.repoJSON(r)}
	}
	m["head"], m["base"] = side(i.pull.head, i.pull.headSHA), side(i.pull.base, revParse(r.dir, i.pull.base))
	if i.pull.fork {
		m["head"].(map[string]any)["repo"] = map[string]any{"id": r.id + 1_000_000}
	}
	m["draft"], m["merged_at"], m["node_id"] = i.pull.draft, nil, "PR_"+strconv.FormatInt(i.id, 10)
	return m
}

func (s *model) commentJSON(r *repo, i *item, c *comment) map[string]any {
	m := map[string]any{"id": c.id, "body": c.body, "user": c.author, "created_at": c.created, "updated_at": c.updated,
		"html_url": fmt.Sprintf("%s/%s/issues/%d#issuecomment-%d", s.web, r.path(), i.number, c.id)}
	switch {
	case s.kind == forge.GitHub:
		m["issue_url"] = fmt.Sprintf("%s%s/repos/%s/issues/%d", s.web, s.prefix(), r.path(), i.number)
	case i.pull != nil:
		m["issue_url"], m["pull_request_url"] = "", s.pullURL(r, i)
	default:
		m["issue_url"], m["pull_request_url"] = fmt.Sprintf("%s/%s/issues/%d", s.web, r.path(), i.number), ""
	}
	return m
}

func (s *model) reviewJSON(i *item, v *review) map[string]any {
	state := v.state
	if v.dismissed && s.kind == forge.GitHub {
		state = "DISMISSED"
	}
	if s.kind == forge.Gitea {
		if name, other := map[string]string{"CHANGES_REQUESTED": "REQUEST_CHANGES", "COMMENTED": "COMMENT"}[state]; other {
			state = name
		}
	}
	m := map[string]any{"id": v.id, "user": v.author, "state": state, "body": v.body, "commit_id": v.commit, "submitted_at": v.submitted, "html_url": fmt.Sprintf("%s/#%d-review-%d", s.web, i.number, v.id)}
	if s.kind == forge.Gitea {
		m["dismissed"] = v.dismissed
	}
	return m
}

func (s *model) reviewCommentJSON(r *repo, i *item, c *reviewComment) map[string]any {
	m := s.commentJSON(r, i, &c.comment)
	m["pull_request_review_id"], m["path"], m["commit_id"] = c.review, c.path, c.commit
	if s.kind == forge.GitHub {
		m["line"] = c.line
		if c.replyTo != 0 {
			m["in_reply_to_id"] = c.replyTo
		}
	} else {
		m["position"] = c.line
	}
	return m
}

// labelsOf returns the labels of an item with their ids.
func (r *repo) labelsOf(i *item) []label {
	out := []label{}
	for _, l := range r.labels {
		if slices.Contains(i.labels, l.Name) {
			out = append(out, l)
		}
	}
	return out
}
