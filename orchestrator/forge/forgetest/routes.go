package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// routes returns the handler of the whole server.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	api := func(method, path string, h http.HandlerFunc) { mux.HandleFunc(method+" "+s.prefix()+path, h) }
	api("GET", "/user", s.asUser(func(q request) { q.writeJSON(http.StatusOK, q.by) }))
	const at = "/repos/{owner}/{repo}"
	api("GET", at, s.inRepo(forge.Read, func(q request) { q.writeJSON(http.StatusOK, s.repoJSON(q.repo)) }))
	api("GET", at+"/collaborators/{login}/permission", s.inRepo(forge.Read, s.getPermission))
	api("GET", at+"/issues", s.inRepo(forge.Read, s.listIssues))
	api("POST", at+"/issues", s.inRepo(forge.Read, s.createIssue))
	api("GET", at+"/issue-comments", s.inRepo(forge.Read, s.listAllComments))
	api("GET", at+"/issue-comments/{id}", s.inRepo(forge.Read, func(q request) {
		if i, c := q.comment(); c != nil {
			q.writeJSON(http.StatusOK, s.commentJSON(q.repo, i, c))
		}
	}))
	api("PATCH", at+"/issue-comments/{id}", s.inRepo(forge.Read, s.editComment))
	api("POST", at+"/issue-comments/{id}/reactions", s.inRepo(forge.Read, s.react))
	api("GET", at+"/issues/{number}", s.inRepo(forge.Read, func(q request) {
		if i := q.item(); i != nil {
			q.writeJSON(http.StatusOK, s.issueJSON(q.repo, i))
		}
	}))
	api("GET", at+"/issues/{number}/comments", s.inRepo(forge.Read, s.listComments))
	api("POST", at+"/issues/{number}/comments", s.inRepo(forge.Read, s.createComment))
	api("GET", at+"/issues/{number}/labels", s.inRepo(forge.Read, func(q request) {
		if i := q.item(); i != nil {
			q.writeJSON(http.StatusOK, q.repo.labelsOf(i))
		}
	}))
	api("POST", at+"/issues/{number}/labels", s.inRepo(forge.Triage, s.addLabels))
	api("DELETE", at+"/issues/{number}/labels/{label}", s.inRepo(forge.Triage, s.removeLabel))
	api("GET", at+"/pulls", s.inRepo(forge.Read, s.listPulls))
	api("POST", at+"/pulls", s.inRepo(forge.Read, s.createPull))
	api("GET", at+"/pulls/{number}", s.inRepo(forge.Read, func(q request) {
		if i := q.pull(); i != nil {
			q.writeJSON(http.StatusOK, s.pullJSON(q.repo, i))
		}
	}))
	api("GET", at+"/pulls/{number}/reviews", s.inRepo(forge.Read, s.listReviews))
	api("GET", at+"/commits/{sha}/status", s.inRepo(forge.Read, s.combinedStatus))
	api("POST", at+"/statuses/{sha}", s.inRepo(forge.Write, s.setStatus))
	api("GET", at+"/hooks", s.inRepo(forge.Admin, s.listHooks))
	api("POST", at+"/hooks", s.inRepo(forge.Admin, s.createHook))
	if s.kind == forge.GitHub {
		api("GET", "/user/{id}", s.asUser(s.getUserByID))
		api("GET", "/users/{login}", s.asUser(func(q request) {
			if u := s.findUser(q.PathValue("login")); u != nil {
				q.writeJSON(http.StatusOK, u)
				return
			}
			writeProblem(q.w, http.StatusNotFound, "Not Found")
		}))
		api("GET", "/app", s.asApp(func(q request) { q.writeJSON(http.StatusOK, map[string]any{"id": s.app.id, "slug": s.app.slug}) }))
		api("POST", "/app/installations/{id}/access_tokens", s.asApp(s.mintToken))
		api("GET", at+"/commits/{sha}/check-runs", s.inRepo(forge.Read, s.listCheckRuns))
		api("POST", at+"/check-runs", s.inRepo(forge.Write, s.createCheckRun))
		api("GET", at+"/pulls/{number}/comments", s.inRepo(forge.Read, s.listReviewComments))
		api("POST", at+"/pulls/{number}/comments/{id}/replies", s.inRepo(forge.Read, s.replyToComment))
		api("GET", at+"/hooks/{id}/deliveries", s.inRepo(forge.Admin, s.listDeliveries))
		api("POST", at+"/hooks/{id}/deliveries/{delivery}/attempts", s.inRepo(forge.Admin, s.redeliver))
		mux.HandleFunc("POST /api/graphql", s.asUser(s.graphql))
	} else {
		api("GET", "/users/search", s.asUser(s.searchUsers))
		api("GET", at+"/labels", s.inRepo(forge.Read, func(q request) { q.writePage(s, asList(q.repo.labels)) }))
		api("POST", at+"/labels", s.inRepo(forge.Write, s.createLabel))
		api("PATCH", at+"/pulls/{number}", s.inRepo(forge.Write, s.editPull))
		api("GET", at+"/pulls/{number}/reviews/{id}/comments", s.inRepo(forge.Read, s.listReviewComments))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			writeProblem(w, http.StatusNotFound, "Not Found")
			return
		}
		s.serveGit(w, r)
	})
	// The patterns of the mux cannot tell the comments of all issues from those of one.
	apart := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, "/issues/comments", "/issue-comments", 1)
		mux.ServeHTTP(w, r)
	})
	return s.withFaults(s.withETag(apart))
}

func asList[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// getPermission tells the role of a user: at GitHub to accounts that may write, at Gitea to administrators of the repository and
// to the user.
func (s *Server) getPermission(q request) {
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

func (s *Server) getUserByID(q request) {
	if i := slices.IndexFunc(s.users, func(u *user) bool { return strconv.FormatInt(u.ID, 10) == q.PathValue("id") }); i >= 0 {
		q.writeJSON(http.StatusOK, s.users[i])
		return
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}

func (s *Server) searchUsers(q request) {
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

func (s *Server) listIssues(q request) {
	var out []any
	for _, i := range slices.Backward(q.repo.items) { // newest first, as by default
		if (q.URL.Query().Get("state") == "all" || i.open) && !i.updated.Before(q.since()) {
			out = append(out, s.issueJSON(q.repo, i))
		}
	}
	q.writePage(s, out)
}

func (s *Server) createIssue(q request) {
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

func (s *Server) listComments(q request) {
	i := q.item()
	if i == nil {
		return
	}
	var out []any
	for _, c := range i.comments {
		out = append(out, s.commentJSON(q.repo, i, c))
	}
	q.writePage(s, out)
}

func (s *Server) listAllComments(q request) {
	var out []any
	for _, i := range q.repo.items {
		for _, c := range i.comments {
			if !c.updated.Before(q.since()) {
				out = append(out, s.commentJSON(q.repo, i, c))
			}
		}
	}
	q.writePage(s, out)
}

func (s *Server) createComment(q request) {
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

func (s *Server) editComment(q request) {
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

func (s *Server) react(q request) {
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

// labelItem adds labels to an item, and to the repository those that it lacks.
func (s *Server) labelItem(r *repo, i *item, names []string) {
	for _, name := range names {
		if !slices.ContainsFunc(r.labels, func(l label) bool { return strings.EqualFold(l.Name, name) }) {
			r.labels = append(r.labels, label{s.nextID(), name})
		}
		if !slices.Contains(i.labels, name) {
			i.labels = append(i.labels, name)
		}
	}
	i.updated = s.advanceClock()
}

func (s *Server) addLabels(q request) {
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

func (s *Server) removeLabel(q request) {
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

func (s *Server) createLabel(q request) {
	var in struct{ Name, Color string }
	if !q.decode(&in) {
		return
	}
	l := label{s.nextID(), in.Name}
	q.repo.labels = append(q.repo.labels, l)
	q.writeJSON(http.StatusCreated, l)
}

func (s *Server) setStatus(q request) {
	var in struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if !q.decode(&in) {
		return
	}
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State) || len([]rune(in.Description)) > 140 {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	c := check{SHA: q.PathValue("sha"), Name: in.Context, State: in.State}
	q.repo.checks = append(slices.DeleteFunc(q.repo.checks, func(k check) bool { return k.SHA == c.SHA && k.Name == c.Name }), c)
	q.writeJSON(http.StatusCreated, map[string]any{"state": in.State, "context": in.Context})
}

func (s *Server) listHooks(q request) {
	var out []any
	for _, h := range q.repo.hooks {
		out = append(out, hookJSON(h))
	}
	q.writePage(s, out)
}

func hookJSON(h hook) map[string]any {
	return map[string]any{"id": h.id, "active": true, "events": h.events, "config": map[string]string{"url": h.url, "content_type": "json"}}
}

func (s *Server) createHook(q request) {
	var in struct {
		Name, Type string
		Active     bool
		Events     []string
		Config     struct {
			URL         string
			ContentType string `json:"content_type"`
			Secret      string
		}
	}
	if !q.decode(&in) {
		return
	}
	if (in.Name != "web") == (s.kind == forge.GitHub) || (in.Type != "gitea") == (s.kind == forge.Gitea) || in.Config.ContentType != "json" || in.Config.URL == "" {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	h := hook{s.nextID(), in.Config.URL, in.Config.Secret, in.Events}
	q.repo.hooks = append(q.repo.hooks, h)
	q.writeJSON(http.StatusCreated, hookJSON(h))
}

func (s *Server) listDeliveries(q request) {
	var out []any
	for _, d := range slices.Backward(s.deliveries) {
		if strconv.FormatInt(d.hook.id, 10) == q.PathValue("id") {
			out = append(out, map[string]any{"id": d.ID, "guid": d.GUID, "event": d.Event, "action": d.Action, "status_code": d.Status, "delivered_at": s.clock})
		}
	}
	q.writePage(s, out)
}

// redeliver queues another attempt of a delivery, which keeps its GUID.
func (s *Server) redeliver(q request) {
	for _, d := range s.deliveries {
		if strconv.FormatInt(d.ID, 10) == q.PathValue("delivery") && strconv.FormatInt(d.hook.id, 10) == q.PathValue("id") {
			d.ID, d.Status = s.nextID(), 0
			s.deliveries = append(s.deliveries, d)
			q.writeJSON(http.StatusAccepted, map[string]any{})
			return
		}
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}
