package forgetest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// checks answers requests about check runs and commit statuses.
type checks struct{ *model }

func (s checks) setStatus(q request) {
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
	s.emitCheck(q.repo, c)
	q.writeJSON(http.StatusCreated, map[string]any{"state": in.State, "context": in.Context})
}

// SetCI gives a commit a verdict of the CI: at GitHub a check run, at Gitea a commit status.
func (s *Server) SetCI(path, sha, name string, state forge.CheckState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := check{SHA: sha, Name: name, State: string(state)}
	if s.kind == forge.GitHub {
		c.Run, c.State = true, map[forge.CheckState]string{forge.CheckPending: "in_progress"}[state]
		if c.State == "" {
			c.State = "completed" + string(state)
		}
	}
	r := s.mustRepo(path)
	defer s.emitCheck(r, c)
	for i := range r.checks {
		if r.checks[i].SHA == sha && r.checks[i].Name == name {
			r.checks[i] = c
			return
		}
	}
	r.checks = append(r.checks, c)
}

// emitCheck queues the event of a check.
func (s *model) emitCheck(r *repo, c check) {
	body := map[string]any{"repository": s.repoJSON(r), "sender": s.users[0]}
	if !c.Run {
		body["id"], body["sha"], body["context"], body["state"] = s.nextID(), c.SHA, c.Name, c.State
		s.emitBody(r, "status", "", body)
		return
	}
	run := map[string]any{"id": s.nextID(), "name": c.Name, "head_sha": c.SHA, "status": c.State, "conclusion": nil}
	body["action"] = "created"
	if conclusion, ok := strings.CutPrefix(c.State, "completed"); ok {
		run["status"], run["conclusion"], body["action"] = "completed", conclusion, "completed"
	}
	body["check_run"] = run
	s.emitBody(r, "check_run", body["action"].(string), body)
}

// combinedStatus answers with the commit statuses of a commit.
func (s checks) combinedStatus(q request) {
	member := map[forge.Kind]string{forge.GitHub: "state", forge.Gitea: "status"}[s.kind]
	statuses := []any{}
	for _, c := range q.repo.checks {
		if c.SHA == q.PathValue("sha") && !c.Run {
			statuses = append(statuses, map[string]any{"context": c.Name, member: c.State, "description": "", "target_url": ""})
		}
	}
	q.writeJSON(http.StatusOK, map[string]any{"sha": q.PathValue("sha"), "total_count": len(statuses), "statuses": statuses})
}

// listCheckRuns answers with the check runs of a commit.
func (s checks) listCheckRuns(q request) {
	runs := []any{}
	for _, c := range q.repo.checks {
		if c.SHA != q.PathValue("sha") || !c.Run {
			continue
		}
		run := map[string]any{"name": c.Name, "status": c.State, "conclusion": nil, "details_url": ""}
		if conclusion, ok := strings.CutPrefix(c.State, "completed"); ok {
			run["status"], run["conclusion"] = "completed", conclusion
		}
		runs = append(runs, run)
	}
	q.writeJSON(http.StatusOK, map[string]any{"total_count": len(runs), "check_runs": runs})
}

// createCheckRun is only for Apps.
func (s checks) createCheckRun(q request) {
	var in struct {
		Name, Status, Conclusion string
		HeadSHA                  string `json:"head_sha"`
		DetailsURL               string `json:"details_url"`
		Output                   struct{ Title, Summary string }
	}
	switch {
	case s.app == nil || q.by != s.app.bot:
		writeProblem(q.w, http.StatusForbidden, "You must authenticate via a GitHub App.")
	case !q.decode(&in):
	case in.Name == "" || in.HeadSHA == "" || (in.Status == "completed") != (in.Conclusion != ""):
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed")
	default:
		c := check{SHA: in.HeadSHA, Name: in.Name, State: in.Status + in.Conclusion, Run: true}
		q.repo.checks = append(q.repo.checks, c)
		s.emitCheck(q.repo, c)
		q.writeJSON(http.StatusCreated, map[string]any{"id": s.nextID()})
	}
}
