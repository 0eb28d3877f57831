package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// issues answers requests about issues, with their comments and labels.
type issues struct{ *model }

// people answers requests about accounts.
type people struct{ *model }

// getPermission tells the role of a user: at GitHub to accounts that may write, at Gitea to administrators of the repository and
// to the user.
func (s people) getPermission(q request) {
	u := s.findUser(q.PathValue("login"))
	least := map[forge.Kind]forge.Role{forge.GitHub: forge.Write, forge.Gitea: forge.Admin}[s.kind]
	switch {
	case u == nil:
		writeProblem(q.w, http.StatusNotFound, "Not Found")
		return
	case !q.repo.roleOf(q.by).AtLeast(least) && (u != q.by || s.kind == forge.GitHub):
		writeProblem(q.w, http.StatusForbidden, "Must have "+string(least)+" rights to Repository.")
		return
	}
	role := q.repo.roleOf(u)
	permission := map[forge.Role]string{forge.Triage: "read", forge.Maintain: "write"}[role]
	if permission == "" {
		permission = string(role)
	}
	name := string(role)
	if s.kind == forge.Gitea && u == q.repo.owner {
		permission, name = "owner", "owner"
	}
	q.writeJSON(http.StatusOK, map[string]any{"permission": permission, "role_name": name, "user": u})
}

func (s people) getUserByID(q request) {
	if i := slices.IndexFunc(s.users, func(u *user) bool { return strconv.FormatInt(u.ID, 10) == q.PathValue("id") }); i >= 0 {
		q.writeJSON(http.StatusOK, s.users[i])
		return
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}

func (s people) searchUsers(q request) {
	found := []*user{}
	for _, u := range s.users {
		if strconv.FormatInt(u.ID, 10) == q.URL.Query().Get("uid") {
			found = append(found, u)
		}
	}
	q.writeJSON(http.StatusOK, map[string]any{"ok": true, "data": found})
}

// since returns the instant from which on changes are asked for.
func (q request) since() time.Time {
	t, err := time.Parse(time.RFC3339, q.URL.Query().Get("since"))
	if err != nil {
		return time.Time{}
	}
	return t
}

func (s issues) listIssues(q request) {
	var out []any
	for _, i := range slices.Backward(q.repo.items) { // newest first, as by default
		if (q.URL.Query().Get("state") == "all" || i.open) && !i.updated.Before(q.since()) {
			out = append(out, s.issueJSON(q.repo, i))
		}
	}
	q.writePage(s.model, out)
}

func (s issues) createIssue(q request) {
	if s.kind == forge.Gitea {
		var in struct {
			Title, Body string
			Labels      []int64
		}
		if q.decode(&in) {
			i := s.addItem(q.repo, q.by, in.Title, in.Body)
			for _, l := range q.repo.labels {
				if slices.Contains(in.Labels, l.ID) {
					i.labels = append(i.labels, l.Name)
				}
			}
			q.writeJSON(http.StatusCreated, s.issueJSON(q.repo, i))
		}
		return
	}
	var in struct {
		Title, Body string
		Labels      []string
	}
	if q.decode(&in) {
		i := s.addItem(q.repo, q.by, in.Title, in.Body)
		if q.repo.roleOf(q.by).AtLeast(forge.Triage) { // from others GitHub ignores them
			s.labelItem(q.repo, i, in.Labels)
		}
		q.writeJSON(http.StatusCreated, s.issueJSON(q.repo, i))
	}
}

func (s issues) listComments(q request) {
	i := q.item()
	if i == nil {
		return
	}
	var out []any
	for _, c := range i.comments {
		out = append(out, s.commentJSON(q.repo, i, c))
	}
	q.writePage(s.model, s.dropNewest(out))
}

func (s issues) listAllComments(q request) {
	var out []any
	for _, i := range q.repo.items {
		for _, c := range i.comments {
			if !c.updated.Before(q.since()) {
				out = append(out, s.commentJSON(q.repo, i, c))
			}
		}
	}
	q.writePage(s.model, out)
}

func (s issues) createComment(q request) {
	i := q.item()
	var in struct{ Body string }
	if i == nil || !q.decode(&in) {
		return
	}
	if in.Body == "" || len(in.Body) > 65536 {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed: body cannot be blank, and is too long (maximum is 65536 characters)")
		return
	}
	q.writeJSON(http.StatusCreated, s.commentJSON(q.repo, i, s.addComment(q.repo, i, q.by, in.Body)))
}

func (s issues) editComment(q request) {
	i, c := q.comment()
	var in struct{ Body string }
	if c == nil || !q.decode(&in) {
		return
	}
	if c.author != q.by && !q.repo.roleOf(q.by).AtLeast(forge.Write) {
		writeProblem(q.w, http.StatusForbidden, "Resource not accessible by personal access token")
		return
	}
	s.changeComment(q.repo, q.by, i, c, in.Body)
	q.writeJSON(http.StatusOK, s.commentJSON(q.repo, i, c))
}

func (s issues) react(q request) {
	_, c := q.comment()
	var in struct{ Content string }
	if c == nil || !q.decode(&in) {
		return
	}
	if !slices.Contains([]string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}, in.Content) {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	r := reaction{q.by.ID, in.Content}
	if slices.Contains(c.reactions, r) {
		q.writeJSON(http.StatusOK, map[string]any{"content": in.Content})
		return
	}
	c.reactions = append(c.reactions, r)
	q.writeJSON(http.StatusCreated, map[string]any{"content": in.Content})
}

func (s issues) addLabels(q request) {
	i := q.item()
	if i == nil {
		return
	}
	var names []string
	if s.kind == forge.Gitea {
		var in struct{ Labels []int64 }
		if !q.decode(&in) {
			return
		}
		for _, id := range in.Labels {
			at := slices.IndexFunc(q.repo.labels, func(l label) bool { return l.ID == id })
			if at < 0 {
				writeProblem(q.w, http.StatusUnprocessableEntity, "the label does not exist")
				return
			}
			names = append(names, q.repo.labels[at].Name)
		}
	} else {
		var in struct{ Labels []string }
		if !q.decode(&in) {
			return
		}
		names = in.Labels
	}
	s.labelItem(q.repo, i, names)
	q.writeJSON(http.StatusOK, q.repo.labelsOf(i))
}

func (s issues) removeLabel(q request) {
	i := q.item()
	if i == nil {
		return
	}
	name := q.PathValue("label")
	if s.kind == forge.Gitea {
		for _, l := range q.repo.labels {
			if strconv.FormatInt(l.ID, 10) == name {
				name = l.Name
			}
		}
	}
	if !slices.Contains(i.labels, name) {
		writeProblem(q.w, http.StatusNotFound, "Label does not exist")
		return
	}
	i.labels = slices.DeleteFunc(i.labels, func(l string) bool { return l == name })
	q.writeJSON(http.StatusOK, q.repo.labelsOf(i))
}

func (s issues) createLabel(q request) {
	var in struct{ Name, Color string }
	if !q.decode(&in) {
		return
	}
	l := label{s.nextID(), in.Name}
	q.repo.labels = append(q.repo.labels, l)
	q.writeJSON(http.StatusCreated, l)
}
