package forgetest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// routes returns the handler of the whole server.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	api := func(method, path string, h http.HandlerFunc) {
		if s.kind == forge.GitHub {
			h = github().checkRoute(github().findOperation(method, path), h)
		}
		mux.HandleFunc(method+" "+s.prefix()+path, h)
	}
	api("GET", "/user", s.asUser(func(q request) { q.writeJSON(http.StatusOK, q.by) }))
	const at = "/repos/{owner}/{repo}"
	api("GET", at, s.inRepo(forge.Read, func(q request) { q.writeJSON(http.StatusOK, s.repoJSON(q.repo)) }))
	api("GET", at+"/collaborators/{login}/permission", s.inRepo(forge.Read, people{s.model}.getPermission))
	api("GET", at+"/issues", s.inRepo(forge.Read, issues{s.model}.listIssues))
	api("POST", at+"/issues", s.inRepo(forge.Read, issues{s.model}.createIssue))
	api("GET", at+"/issue-comments", s.inRepo(forge.Read, issues{s.model}.listAllComments))
	api("GET", at+"/issue-comments/{id}", s.inRepo(forge.Read, func(q request) {
		if i, c := q.comment(); c != nil {
			q.writeJSON(http.StatusOK, s.commentJSON(q.repo, i, c))
		}
	}))
	api("PATCH", at+"/issue-comments/{id}", s.inRepo(forge.Read, issues{s.model}.editComment))
	api("POST", at+"/issue-comments/{id}/reactions", s.inRepo(forge.Read, issues{s.model}.react))
	api("GET", at+"/issues/{number}", s.inRepo(forge.Read, func(q request) {
		if i := q.item(); i != nil {
			q.writeJSON(http.StatusOK, s.issueJSON(q.repo, i))
		}
	}))
	api("GET", at+"/issues/{number}/comments", s.inRepo(forge.Read, issues{s.model}.listComments))
	api("POST", at+"/issues/{number}/comments", s.inRepo(forge.Read, issues{s.model}.createComment))
	api("GET", at+"/issues/{number}/labels", s.inRepo(forge.Read, func(q request) {
		if i := q.item(); i != nil {
			q.writeJSON(http.StatusOK, q.repo.labelsOf(i))
		}
	}))
	api("POST", at+"/issues/{number}/labels", s.inRepo(forge.Triage, issues{s.model}.addLabels))
	api("DELETE", at+"/issues/{number}/labels/{label}", s.inRepo(forge.Triage, issues{s.model}.removeLabel))
	api("GET", at+"/pulls", s.inRepo(forge.Read, pulls{s.model}.listPulls))
	api("POST", at+"/pulls", s.inRepo(forge.Read, pulls{s.model}.createPull))
	api("GET", at+"/pulls/{number}", s.inRepo(forge.Read, func(q request) {
		if i := q.pull(); i != nil {
			q.writeJSON(http.StatusOK, s.pullJSON(q.repo, i))
		}
	}))
	api("GET", at+"/pulls/{number}/files", s.inRepo(forge.Read, pulls{s.model}.listFiles))
	api("GET", at+"/pulls/{number}/reviews", s.inRepo(forge.Read, pulls{s.model}.listReviews))
	api("GET", at+"/commits/{sha}/status", s.inRepo(forge.Read, checks{s.model}.combinedStatus))
	api("POST", at+"/statuses/{sha}", s.inRepo(forge.Write, checks{s.model}.setStatus))
	api("GET", at+"/hooks", s.inRepo(forge.Admin, hooks{s.model}.listHooks))
	api("POST", at+"/hooks", s.inRepo(forge.Admin, hooks{s.model}.createHook))
	api("PATCH", at+"/hooks/{id}", s.inRepo(forge.Admin, hooks{s.model}.editHook))
	if s.kind == forge.GitHub {
		api("GET", "/user/{id}", s.asUser(people{s.model}.getUserByID))
		api("GET", "/users/{login}", s.asUser(func(q request) {
			if u := s.findUser(q.PathValue("login")); u != nil {
				q.writeJSON(http.StatusOK, u)
				return
			}
			writeProblem(q.w, http.StatusNotFound, "Not Found")
		}))
		api("GET", "/app", s.asApp(func(q request) { q.writeJSON(http.StatusOK, map[string]any{"id": s.app.id, "slug": s.app.slug}) }))
		api("POST", "/app/installations/{id}/access_tokens", s.asApp(apps{s.model}.mintToken))
		api("GET", at+"/commits/{sha}/check-runs", s.inRepo(forge.Read, checks{s.model}.listCheckRuns))
		api("POST", at+"/check-runs", s.inRepo(forge.Write, checks{s.model}.createCheckRun))
		api("GET", at+"/pulls/{number}/comments", s.inRepo(forge.Read, pulls{s.model}.listReviewComments))
		api("POST", at+"/pulls/{number}/comments", s.inRepo(forge.Read, threads{s.model}.commentOnLine))
		api("POST", at+"/pulls/{number}/comments/{id}/replies", s.inRepo(forge.Read, pulls{s.model}.replyToComment))
		api("GET", at+"/hooks/{id}/deliveries", s.inRepo(forge.Admin, hooks{s.model}.listDeliveries))
		api("POST", at+"/hooks/{id}/deliveries/{delivery}/attempts", s.inRepo(forge.Admin, hooks{s.model}.redeliver))
		mux.HandleFunc("POST /api/graphql", s.asUser(threads{s.model}.graphql))
	} else {
		api("GET", "/users/search", s.asUser(people{s.model}.searchUsers))
		api("GET", at+"/labels", s.inRepo(forge.Read, func(q request) { q.writePage(s.model, asList(q.repo.labels)) }))
		api("POST", at+"/labels", s.inRepo(forge.Write, issues{s.model}.createLabel))
		api("PATCH", at+"/pulls/{number}", s.inRepo(forge.Write, pulls{s.model}.editPull))
		api("POST", at+"/pulls/{number}/reviews", s.inRepo(forge.Read, threads{s.model}.createReview))
		api("GET", at+"/pulls/{number}/reviews/{id}/comments", s.inRepo(forge.Read, pulls{s.model}.listReviewComments))
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
	return s.withFaults(s.withLimit(s.withETag(apart)))
}

func asList[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// labelItem adds labels to an item, and to the repository those that it lacks.
func (s *model) labelItem(r *repo, i *item, names []string) {
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
