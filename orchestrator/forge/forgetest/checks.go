package forgetest

import (
	"net/http"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
)

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
	for i := range r.checks {
		if r.checks[i].SHA == sha && r.checks[i].Name == name {
			r.checks[i] = c
			return
		}
	}
	r.checks = append(r.checks, c)
}

// combinedStatus answers with the commit statuses of a commit.
func (s *Server) combinedStatus(q request) {
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
func (s *Server) listCheckRuns(q request) {
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
